"""uvicorn with our connections, and with an end that is ours: what still runs is told, then cut."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

from infer_server.connection import Connection, ConnectionLimits

__all__ = ["HttpServer"]

_LAST_WORDS_S = 2.0
"""How long requests that are cut may take to say so."""
_LAST_BYTES_S = 0.5
"""How long clients may take to read what is left for them, and to agree to the end of TLS."""


class HttpServer(uvicorn.Server):
    """Serves until `should_exit`; then whatever still runs is cancelled, so wait for it before. `force_exit`: at once.

    Signals are not handled here: uvicorn raises them again at the end, and so spoils the exit status.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, tls: ssl.SSLContext | None = None) -> None:
        # At level error: below it, uvicorn writes a line for each request that is no HTTP.
        config = uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        super().__init__(config)
        self._limits = limits
        self._tls = tls

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept connections on the listening `sockets`."""
        assert sockets is not None, "the port is opened before the model is loaded"
        loop = asyncio.get_running_loop()

        def connection() -> Connection:
            return Connection(self._limits, config=self.config, server_state=self.server_state, app_state={})

        handshake_s = self._limits.header_timeout_s if self._tls else None
        self.servers = [
            await loop.create_server(connection, sock=each, ssl=self._tls, ssl_handshake_timeout=handshake_s)
            for each in sockets
        ]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting, cut what runs, close every connection."""
        for server in self.servers:
            server.close()
        for each in sockets or ():
            each.close()
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=0 if self.force_exit else _LAST_WORDS_S)
        for connection in list(self.server_state.connections):
            connection.shutdown()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0 if self.force_exit else _LAST_BYTES_S):
                while self.server_state.connections:
                    await asyncio.sleep(0.01)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        for server in self.servers:
            await server.wait_closed()
