"""Requests that still run when the time to end is over: each is told why, then cut."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from infer_server.errors import Failure, error_response

__all__ = ["CutMiddleware"]

_ENDING = Failure(503, "the server ends, and this request took longer than it waits", "server_stopping")


class CutMiddleware:
    """Ends a reply when the server cancels it: 503 where none has begun, an error event in a stream of events."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun: list[Message] = []
        ended = False

        async def watched(message: Message) -> None:
            nonlocal ended
            if message["type"] == "http.response.start":
                begun.append(message)
            ended = message["type"] == "http.response.body" and not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except asyncio.CancelledError:
            if scope["type"] == "http" and not ended:
                await _cut(scope, receive, send, begun)
            raise


async def _cut(scope: Scope, receive: Receive, send: Send, begun: list[Message]) -> None:
    response = error_response(_ENDING)
    if not begun:
        await response(scope, receive, send)
    elif Headers(raw=begun[0]["headers"]).get("content-type", "").startswith("text/event-stream"):
        event = b"data: " + bytes(response.body) + b"\n\n"
        await send({"type": "http.response.body", "body": event, "more_body": False})
