from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from infer_server.paths import PathTable
from infer_server.watching import WatchMiddleware


def models_router() -> APIRouter:
    inner, outer = APIRouter(), APIRouter(prefix="/x/acme")

    @inner.get("/models/{name}")
    async def model(name: str) -> str:
        return name

    outer.include_router(inner)
    return outer


@pytest.mark.parametrize(
    ("method", "path", "route", "status"),
    [
        ("GET", "/health", "/health", 200),
        ("GET", "/x/acme/models/a", "/x/acme/models/{name}", 200),
        ("POST", "/note", "/note", 415),
        ("GET", "/note", "/note", 405),
        ("GET", "/nothing/here", "", 404),
        ("GET", "/fail/bug", "/fail/{how}", 500),
        ("GET", "/docs", "/docs", 200),
        ("GET", "/openapi.json", "/openapi.json", 200),
    ],
)
async def test_each_answer_is_told_once_with_its_declared_path(
    method: str, path: str, route: str, status: int, make_client: Callable[..., Any], told: list[Any]
) -> None:
    async with make_client(routers=[models_router()]) as client:
        assert (await client.request(method, path, content=b"x" if method == "POST" else None)).status_code == status
    ((hook, facts),) = told
    assert (hook, facts["method"], facts["route"], facts["status"]) == ("infer_response_sent", method, route, status)
    assert 0 < facts["duration_s"] < 5


async def test_refused_keys_are_told_with_the_path_that_was_asked_for(
    make_client: Callable[..., Any], told: list[Any]
) -> None:
    async with make_client("k1") as client:
        await client.post("/note", json={})
    assert (told[0][1]["route"], told[0][1]["status"]) == ("/note", 401)


async def told_of(app: Any, incoming: list[Message]) -> dict[str, Any]:
    told: list[dict[str, Any]] = []

    async def receive() -> Message:
        return incoming.pop(0) if incoming else await asyncio.Event().wait()

    async def send(message: Message) -> None:
        return None

    watch = WatchMiddleware(app, lambda hook, **facts: told.append(facts), PathTable(["/a"]))
    await watch({"type": "http", "method": "GET", "path": "/a", "headers": []}, receive, send)
    (facts,) = told
    return facts


async def test_a_stream_whose_client_left_is_told_as_499() -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x"
            await asyncio.sleep(0)

    assert (await told_of(StreamingResponse(endless()), [{"type": "http.disconnect"}]))["status"] == 499


async def test_an_answer_made_for_a_client_that_left_before_is_told_as_499() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await StreamingResponse(iter(()))(scope, receive, send)

    assert (await told_of(app, [{"type": "http.disconnect"}]))["status"] == 499


async def test_a_client_that_leaves_after_its_answer_changes_nothing() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 201, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        await receive()

    assert (await told_of(app, [{"type": "http.disconnect"}]))["status"] == 201


async def test_a_line_per_request_is_logged_at_debug_only_and_holds_no_secret(
    make_client: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with make_client("s3cret-key") as client:
        caplog.set_level(logging.INFO)
        for headers in (
            {"Authorization": "Bearer s3cret-key"},
            {"X-Api-Key": "s3cret-key"},
            {"X-Api-Key": "s3cret-ke"},
        ):
            await client.get("/version?key=s3cret-key", headers=headers)
        assert [record for record in caplog.records if record.name.startswith("infer_server")] == []
        caplog.set_level(logging.DEBUG)
        headers = {"Authorization": "Bearer s3cret-key", "X-Request-Id": "mine-7"}
        await client.get("/version/a%0Ab?key=s3cret-key", headers=headers)
        await client.get("/version", headers={"X-Api-Key": "s3cret-ke"})
        await client.get("/fail/bug", headers=headers)
    first = next(record for record in caplog.records if record.name == "infer_server.watching")
    assert first.getMessage().startswith("mine-7 GET /version/a%0Ab 404 ")
    assert first.request_id == "mine-7"
    assert "s3cret" not in "".join(
        r.getMessage() for r in caplog.records if not r.name.startswith(("httpx", "httpcore"))
    )


async def test_chunks_of_a_stream_pass_as_they_come(make_client: Callable[..., Any]) -> None:
    """The middleware holds nothing back: each message is sent on before the next one is made."""
    router, sent = APIRouter(), []

    @router.get("/stream")
    async def stream() -> StreamingResponse:
        async def chunks() -> AsyncIterator[bytes]:
            for number in range(3):
                sent.append(f"made {number}")
                yield b"%d" % number

        return StreamingResponse(chunks())

    client: httpx.AsyncClient = make_client(routers=[router])
    app = client._transport.app  # type: ignore[attr-defined]

    async def receive() -> Message:
        return await asyncio.Event().wait()

    async def send(message: Message) -> None:
        if message.get("body"):
            sent.append(f"sent {message['body'].decode()}")

    await app(
        {"type": "http", "method": "GET", "path": "/stream", "headers": [], "query_string": b"", "root_path": ""},
        receive,
        send,
    )
    assert sent == ["made 0", "sent 0", "made 1", "sent 1", "made 2", "sent 2"]
