from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from infer_server import body as body_module
from infer_server.body import BodyMiddleware

JSON = {"Content-Type": "application/json"}


async def test_a_good_body_reaches_the_route_whole(client: httpx.AsyncClient) -> None:
    reply = await client.post("/note", json={"text": "Größe 😀", "counts": [1, 2]})
    assert reply.status_code == 200
    assert reply.json() == {"text": "Größe 😀", "counts": [1, 2]}


@pytest.mark.parametrize(
    "body", [b"{not json", b"[]", b'"x"', b"null", b"", b"\xff\xfe", b'{"text": "\\ud800"}', b'{"text":"a","text":"b"}']
)
async def test_b62_bad_bodies_are_400_and_the_next_request_is_served(client: httpx.AsyncClient, body: bytes) -> None:
    reply = await client.post("/note", content=body, headers=JSON)
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    assert (await client.post("/note", json={"text": "next"})).status_code == 200


async def test_b62_a_deep_body_is_400(client: httpx.AsyncClient) -> None:
    reply = await client.post("/note", content=b"[" * 2000 + b"]" * 2000, headers=JSON)
    assert reply.status_code == 400


async def test_a_declared_length_over_the_limit_is_413_unread(client: httpx.AsyncClient) -> None:
    reply = await client.post("/note", content=b"x" * 5000, headers=JSON)
    assert reply.status_code == 413
    assert "4096" in reply.json()["error"]["message"]


async def test_a_chunked_body_over_the_limit_is_413_and_not_buffered(client: httpx.AsyncClient) -> None:
    num_sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal num_sent
        for _ in range(200):
            num_sent += 1
            yield b" " * 1024

    reply = await client.post("/note", content=endless(), headers=JSON)
    assert reply.status_code == 413
    assert num_sent <= 6


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_another_content_type_is_415(client: httpx.AsyncClient, content_type: str | None) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    reply = await client.post("/note", content=b'{"text": "a"}', headers=headers)
    assert reply.status_code == 415
    assert reply.json()["error"]["code"] == "unsupported_media_type"


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/x+json"])
async def test_spellings_of_json_are_accepted(client: httpx.AsyncClient, content_type: str) -> None:
    reply = await client.post("/note", content=b'{"text": "a"}', headers={"Content-Type": content_type})
    assert reply.status_code == 200


async def test_a_compressed_body_is_415(client: httpx.AsyncClient) -> None:
    bomb = gzip.compress(b" " * 100_000)
    reply = await client.post("/note", content=bomb, headers={**JSON, "Content-Encoding": "gzip"})
    assert reply.status_code == 415
    assert reply.json()["error"]["code"] == "unsupported_encoding"


async def test_after_the_body_the_app_sees_the_client_leave() -> None:
    seen: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend([await receive(), await receive()])

    incoming: list[Message] = [
        {"type": "http.request", "body": b'{"a"', "more_body": True},
        {"type": "http.request", "body": b":1}", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return incoming.pop(0)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", b"application/json")]}
    await BodyMiddleware(app, 100, 10, 5.0)(scope, receive, None)
    assert seen == [{"type": "http.request", "body": b'{"a":1}', "more_body": False}, {"type": "http.disconnect"}]


async def test_a_client_that_leaves_within_the_body_ends_quietly() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the app must not be called")

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    await BodyMiddleware(app, 100, 10, 5.0)(
        {"type": "http", "method": "POST", "path": "/", "headers": []}, receive, None
    )


@pytest.mark.parametrize(("num_bytes", "is_beside"), [(100, False), (40_000, True)])
async def test_a_long_body_is_checked_beside_the_event_loop(
    num_bytes: int, is_beside: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(body_module, "check_json", lambda data, max_depth: threads.append(threading.current_thread()))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert len((await receive())["body"]) == num_bytes
        await Response()(scope, receive, send)

    checked = BodyMiddleware(app, max_bytes=2**20, max_depth=10, timeout_s=5.0)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(checked), base_url="http://server") as client:
        headers = {"Content-Type": "application/json"}
        assert (await client.post("/", content=b" " * num_bytes, headers=headers)).status_code == 200
    assert (threads[0] is not threading.current_thread()) is is_beside


async def test_a_body_that_does_not_come_is_408_and_names_the_limit() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("the app must not be called")

    incoming: list[Message] = [{"type": "http.request", "body": b'{"a"', "more_body": True}]
    sent: list[Message] = []

    async def receive() -> Message:
        return incoming.pop() if incoming else await asyncio.Event().wait()

    async def send(message: Message) -> None:
        sent.append(message)

    late = BodyMiddleware(app, max_bytes=100, max_depth=10, timeout_s=0.02)
    await late({"type": "http", "method": "POST", "path": "/", "headers": []}, receive, send)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]
    assert b"body_timeout" in sent[1]["body"]
    assert b"0.02 s (server.body_timeout_s)" in sent[1]["body"]
