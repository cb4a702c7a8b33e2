"""What a request that is cut still says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from infer_server.cutting import CutMiddleware

SCOPE: Any = {"type": "http", "method": "GET", "path": "/", "headers": []}
START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}


async def cut(messages: list[Message]) -> list[Message]:
    """What is sent by an app that sends `messages`, and is then cancelled."""
    sent: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)
        await asyncio.sleep(60)

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    task = asyncio.create_task(CutMiddleware(app)(SCOPE, receive, send))
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return sent


async def test_a_stream_that_is_cut_ends_with_an_error_event() -> None:
    *_, last = await cut([START, {"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True}])
    assert b'"server_stopping"' in last["body"]
    assert last["more_body"] is False


async def test_a_reply_that_was_complete_is_left_alone() -> None:
    messages: list[Message] = [START, {"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False}]
    assert await cut(messages) == messages
