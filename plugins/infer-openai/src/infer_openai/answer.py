"""Events → the HTTP answer, whole or streamed. Errors before the first event are plain replies, never streams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from infer_api.errors import EngineDeadError, InferError, RequestError
from infer_api.services import Event, OutputPipeline
from infer_openai.disconnect import ClientGone, close, until_gone
from infer_openai.envelope import DONE
from infer_openai.shapes import Shape

__all__ = ["EventStream", "answer", "error_event"]

_CLIENT_CLOSED_REQUEST = 499


async def answer(
    request: Request, pipeline: OutputPipeline, events: AsyncIterator[Event], shape: Shape, *, stream: bool
) -> Response:
    """The reply to one request. Raises what the pipeline raises before its first event (always, unless `stream`)."""
    try:
        if stream:
            first = await until_gone(request.receive, _next(events))
            return EventStream(first, events, shape)
        reply = await until_gone(request.receive, pipeline.collect(events))
        return Response(shape.whole(reply), media_type="application/json")
    except ClientGone:
        await close(events)
        return Response(status_code=_CLIENT_CLOSED_REQUEST)


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


class EventStream(Response):
    """Server-sent events. Whatever ends it (last event, error, departure of the client), `events` is closed."""

    media_type = "text/event-stream"

    def __init__(self, first: Event, events: AsyncIterator[Event], shape: Shape) -> None:
        self.status_code = 200
        self.background = None
        self._first = first
        self._events = events
        self._shape = shape
        self.init_headers({"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await until_gone(receive, self._send_all(send))
        except ClientGone:
            return
        finally:
            await close(self._events)

    async def _send_all(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            await _send(send, self._shape.chunk(self._first))
            async for event in self._events:
                await _send(send, self._shape.chunk(event))
            await _send(send, DONE)
        except InferError as error:
            await _send(send, error_event(error))
        except Exception as error:
            await _send(send, error_event(error))
            raise
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _send(send: Send, data: bytes) -> None:
    if data:
        await send({"type": "http.response.body", "body": data, "more_body": True})


def error_event(error: Exception) -> bytes:
    """The event that tells of an error after the stream has begun; it is the last one."""
    param: str | None = None
    if isinstance(error, RequestError):
        message, code, param = error.message, error.code, error.param
        kind = "server_error" if error.status >= 500 else "invalid_request_error"
    elif isinstance(error, EngineDeadError):
        message, code, kind = str(error) or "the engine has stopped", "engine_dead", "server_error"
    else:
        message, code, kind = "the server failed on this request", "internal_error", "server_error"
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return b"data: " + json.dumps(body).encode("ascii") + b"\n\n"
