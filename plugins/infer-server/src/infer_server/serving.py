"""The life of the server process: from the open port to the last reply."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
import socket
from collections.abc import Iterator
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.routing import Match

from infer_api.commands import CommandContext
from infer_api.services import EngineClient
from infer_server.app import make_app
from infer_server.banner import TRY_PATHS, ready_lines
from infer_server.listen import url_of
from infer_server.starting import StartingApp

__all__ = ["serve"]

_WATCH_INTERVAL_S = 1.0
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _HttpServer(uvicorn.Server):
    """uvicorn without its signal handlers: those raise the signal again at the end, and so spoil the exit code."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(context: CommandContext, listener: socket.socket) -> int:
    """Serve on `listener` until a signal (0) or the engine's death (1). Raises InferError when it cannot start."""
    starting = StartingApp()
    url = url_of(listener)  # asked now: a signal closes the socket, also while the model loads
    server = _HttpServer(_http_config(starting, context.config.server))
    with _stop_on_signals(server, starting) as signals:
        http = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with context.open_services() as services:
                routers = [router for _, router in context.routes(services)]
                app = make_app(services, routers, allowed_origins=context.config.server.allowed_origins)
                starting.become(app)
                paths = frozenset(path for path in TRY_PATHS if _answers(app, path))
                for line in ready_lines(services, await services.engine.stats(), url, paths):
                    context.say(line)
                return await _until_stopped(http, server, services.engine, context)
        except asyncio.CancelledError:
            if not signals:
                raise
            return 0
        finally:
            server.should_exit = True
            await http


def _answers(app: FastAPI, path: str) -> bool:
    request = {"type": "http", "method": "POST", "path": path, "root_path": "", "headers": []}
    return any(route.matches(dict(request))[0] is Match.FULL for route in app.routes)


def _http_config(app: StartingApp, settings: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_timeout_s),
    )


@contextlib.contextmanager
def _stop_on_signals(server: uvicorn.Server, starting: StartingApp) -> Iterator[list[int]]:
    """A first signal ends serving once running requests are done, a second one at once. Yields those received."""
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    received: list[int] = []

    def stop(number: int) -> None:
        server.force_exit = bool(received)
        server.should_exit = True
        received.append(number)
        if not starting.is_ready and main is not None:
            main.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, stop, number)
    try:
        yield received
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _until_stopped(
    http: asyncio.Task[None], server: uvicorn.Server, engine: EngineClient, context: CommandContext
) -> int:
    death = asyncio.create_task(_death_of(engine))
    try:
        await asyncio.wait({http, death}, return_when=asyncio.FIRST_COMPLETED)
        if http.done():
            await http
            return 0
        context.say(f"the engine has stopped: {await death}")
        server.should_exit = True
        await http
        return 1
    finally:
        death.cancel()


async def _death_of(engine: EngineClient) -> str:
    """Wait until the engine is dead, and say why."""
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        health = await engine.health()
        if not health.ready:
            return health.reason
