"""What became of each request: a hook for plugins that count, and a line in the log at level debug."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infer_server.paths import PathTable

__all__ = ["CLIENT_LEFT", "WatchMiddleware"]

_log = logging.getLogger(__name__)

CLIENT_LEFT = 499
"""Status told for a request whose client did not wait for the end of its answer; nobody gets to see it otherwise."""


class WatchMiddleware:
    """Passes every message on as it comes, and tells `infer_response_sent` after the last one."""

    def __init__(self, app: ASGIApp, tell: Callable[..., None], paths: PathTable) -> None:
        self._app = app
        self._tell = tell
        self._paths = paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_s = time.perf_counter()
        answer = _Answer(receive, send)
        try:
            await self._app(scope, answer.receive, answer.send)
        except Exception:
            answer.status = answer.status or 500  # the handler outside of this one answers it
            answer.is_complete = not answer.client_left
            raise
        finally:
            self._told(scope, answer, time.perf_counter() - started_s)

    def _told(self, scope: Scope, answer: _Answer, duration_s: float) -> None:
        status = answer.status if answer.is_complete else CLIENT_LEFT
        request_id = scope.get("state", {}).get("request_id", "")
        facts = {"method": scope["method"], "route": self._paths.find(scope), "status": status}
        self._tell("infer_response_sent", **facts, duration_s=duration_s)
        if _log.isEnabledFor(logging.DEBUG):
            # Quoted: a path may hold line breaks. Queries and headers are left out: they may hold secrets.
            line = (request_id, scope["method"], quote(scope["path"]), status, duration_s * 1000)
            _log.debug("%s %s %s %d %.1f ms", *line, extra={"request_id": request_id})


class _Answer:
    """How far the answer has come."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.status = 0
        self.is_complete = False
        self.client_left = False

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.disconnect" and not self.is_complete:
            self.client_left = True
        return message

    async def send(self, message: Message) -> None:
        await self._send(message)
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            # To a client that is known to have left, messages go nowhere.
            self.is_complete = not self.client_left
