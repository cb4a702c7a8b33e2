"""One client's connection: uvicorn's HTTP protocol with bounds on what a slow or greedy client can hold.

    waits for                    bound               what happens then
    headers                      header_timeout_s    408
    the rest of an unread body   body_timeout_s      closed (while a route reads it: BodyMiddleware, 408)
    the next request             idle_timeout_s      closed
    room to write                write_timeout_s     cut off; the app sees the client leave

Headers beyond `max_header_bytes` get 431; a connection beyond `max_connections` is closed before a byte is read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from infer_server.errors import Failure, error_response

__all__ = ["Connection", "ConnectionLimits"]

_log = logging.getLogger(__name__)
_SAY_FULL_EVERY_S = 60.0
_MAX_URL_BYTES = 2**16 - 1
"""What httptools can take apart."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The `server` options of these names."""

    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    idle_timeout_s: float = 75.0
    write_timeout_s: float = 60.0
    max_header_bytes: int = 64 * 2**10
    max_connections: int = 4096


class Connection(HttpToolsProtocol):
    """See the table above. Everything runs in the event loop's thread."""

    _said_full_s: ClassVar[float] = float("-inf")

    def __init__(self, limits: ConnectionLimits, **of_server: Any) -> None:
        super().__init__(**of_server)
        self.timeout_keep_alive = limits.idle_timeout_s  # type: ignore[assignment]
        self._limits = limits
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._part = "headers"
        """What of a request is being received: "headers", "body", or "" between requests."""
        self._header_bytes = 0
        self._began_now = False
        self._is_over = False
        """Whether what the client sends is not looked at any more."""
        self._running: RequestResponseCycle | None = None
        self._closes_after_body = False
        """The client asked to close after an answer that came before the end of its body. Closing at once would reset
        the connection, and the answer would be lost with what it has not read yet."""

    # --- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self._limits.max_connections:
            self.transport, self._is_over = transport, True
            transport.abort()
            self._say_full()
            return
        super().connection_made(transport)
        self._expect("headers")

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._clear(name)
        self._unset_keepalive_if_required()  # uvicorn lets it run on where the client reset the connection
        # uvicorn tells the newest of pipelined requests only, which need not be the one that runs.
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        self.pipeline.clear()
        self._is_over = True
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        if self.transport.is_closing():
            self._watch_end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set("write", self._limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._clear("write")

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_end()

    # --- what is received -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        # Not from the first byte of a method on: blank lines between requests would keep a connection for ever.
        if self._part != "body" and not self._is_answering:
            self._expect("headers")
        self._began_now = False
        super().data_received(data)
        if self._part == "headers" and not self._began_now:
            self._header_bytes += len(data)
            if self._header_bytes > self._limits.max_header_bytes:
                self._refuse(self._too_large())

    def on_message_begin(self) -> None:
        self._part, self._header_bytes, self._began_now = "headers", 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._part = "body"
        self._clear("headers")
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        app = self.app
        if size > self._limits.max_header_bytes or len(self.url) > _MAX_URL_BYTES:
            self.app = error_response(self._too_large(only_url=size <= self._limits.max_header_bytes))
            self.url = b"/"  # nobody looks at it, and a long one would be called no HTTP
        super().on_headers_complete()
        self.app = app

    def on_message_complete(self) -> None:
        self._part = ""
        self._clear("body")
        super().on_message_complete()
        if self._closes_after_body and not self._is_answering:
            self.transport.close()
            self._watch_end()
        if not self._is_answering and not self.transport.is_closing():
            # It was answered before its end came, and that end has stopped uvicorn's timer.
            self._unset_keepalive_if_required()
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # --- what is answered -----------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        self._unset_keepalive_if_required()
        if cycle.more_body and not cycle.keep_alive:
            cycle.keep_alive = self._closes_after_body = True
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._closes_after_body and self._part != "body":
            self.transport.close()
        if self.transport.is_closing():
            self._watch_end()
        elif self._part and not self._is_answering:
            self._expect(self._part)

    @property
    def _is_answering(self) -> bool:
        return self._running is not None and not self._running.response_complete

    def send_400_response(self, msg: str) -> None:
        self._refuse(Failure(400, "this is no valid HTTP/1.1 request", "invalid_http"))

    def _unsupported_upgrade_warning(self) -> None:
        """Nothing: some clients offer HTTP/2 with each request, and are answered in HTTP/1.1."""

    def _refuse(self, failure: Failure) -> None:
        """Answer what is no whole request, and close."""
        self._is_over = True
        running = self._running
        if running is not None and not running.response_complete:
            if running.response_started or not running.more_body:
                running.keep_alive = False  # its answer comes first
                self.pipeline.clear()
                return
            running.disconnected = True
            running.message_event.set()
        response = error_response(failure)
        lines = [f"HTTP/1.1 {failure.status} {HTTPStatus(failure.status).phrase}".encode(), b"connection: close"]
        lines += [name + b": " + value for name, value in response.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(response.body)]))
        self.transport.close()
        self._watch_end()

    def _too_large(self, *, only_url: bool = False) -> Failure:
        most = f"{self._limits.max_header_bytes} bytes (server.max_header_bytes)"
        message = f"the request line and headers are larger than {most}"
        if only_url:
            message = f"the address in the request line is longer than {_MAX_URL_BYTES} bytes"
        return Failure(431, message, "headers_too_large", headers={"Connection": "close"})

    def _say_full(self) -> None:
        now = time.monotonic()
        if now - Connection._said_full_s > _SAY_FULL_EVERY_S:
            Connection._said_full_s = now
            most = self._limits.max_connections
            _log.warning("connections are closed unread: %d are open, the most (server.max_connections)", most)

    # --- timers ---------------------------------------------------------------------------------------------------

    def _expect(self, part: str) -> None:
        """Give `part` of a request the time that it may take, unless it is being waited for already."""
        if part in self._timers:
            return
        if part == "headers":
            self._set(part, self._limits.header_timeout_s, self._headers_are_late)
        else:
            self._set(part, self._limits.body_timeout_s, self.transport.abort)

    def _headers_are_late(self) -> None:
        most = f"{self._limits.header_timeout_s:g} s (server.header_timeout_s)"
        self._refuse(Failure(408, f"the headers did not arrive within {most}", "header_timeout"))

    def _watch_end(self) -> None:
        """A closed transport waits for what it has not sent yet, as long as the other side keeps it waiting."""
        self._clear("headers")
        self._clear("body")
        self._set("end", self._limits.write_timeout_s, self.transport.abort)

    def _set(self, name: str, delay_s: float, then: Callable[[], None]) -> None:
        self._clear(name)
        self._timers[name] = self.loop.call_later(delay_s, then)

    def _clear(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()
