"""The whole command, in this thread's loop, over a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from infer_api.errors import ModelError
from infer_api.requests import EngineHealth
from infer_server import serving


async def test_it_is_live_while_loading_then_ready_and_ends_with_0_on_sigterm(
    context: Any, running: Any, until_ready: Any
) -> None:
    async with running(context) as (task, client):
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).status_code == 503
        assert context.said == []
        context.loaded.set()
        await until_ready(client)
        assert (await client.post("/note", json={"text": "hello"})).json()["text"] == "hello"
        assert len(context.said) == 4
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(task, 10) == 0
    assert context.services.engine.closed


async def test_the_command_to_try_is_one_of_a_mounted_router(context: Any, running: Any, until_ready: Any) -> None:
    inner, outer = APIRouter(), APIRouter()

    @inner.post("/v1/completions")
    async def completions() -> None: ...

    outer.include_router(inner)
    context.mounted = [("nested", outer)]
    context.loaded.set()
    async with running(context) as (_, client):
        await until_ready(client)
    assert "/v1/completions" in context.said[-1]


async def test_a_signal_while_loading_ends_it_with_0(context: Any, running: Any, until_ready: Any) -> None:
    async with running(context) as (task, client):
        assert (await client.get("/health")).status_code == 200
        os.kill(os.getpid(), signal.SIGINT)
        assert await asyncio.wait_for(task, 10) == 0
    assert context.said == []


async def test_a_model_that_cannot_load_ends_it_with_that_error(context: Any, running: Any, until_ready: Any) -> None:
    context.fails = ModelError("model.safetensors is truncated")
    context.loaded.set()
    async with running(context) as (task, _):
        with pytest.raises(ModelError, match="truncated"):
            await asyncio.wait_for(task, 10)


@pytest.mark.parametrize("reason", ["the worker was killed", "the engine has stopped: the worker was killed"])
async def test_b61_a_dead_engine_ends_the_process_with_1(
    context: Any, running: Any, until_ready: Any, engine: Any, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(serving, "_WATCH_INTERVAL_S", 0.05)
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        engine.dead = reason
        assert await asyncio.wait_for(task, 10) == 1
    assert context.said[-1] == "the engine has stopped: the worker was killed"


async def test_a_large_chunked_body_over_a_real_socket_is_413(context: Any, running: Any, until_ready: Any) -> None:
    async def large() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b" " * 65_536

    context.loaded.set()
    async with running(context) as (_, client):
        await until_ready(client)
        reply = await client.post("/note", content=large(), headers={"Content-Type": "application/json"})
        assert reply.status_code == 413
        assert (await client.post("/note", json={"text": "next"})).status_code == 200


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_head_is_answered_like_get_without_a_body(
    context: Any, running: Any, until_ready: Any, path: str
) -> None:
    async with running(context) as (_, client):
        assert (await client.head(path)).status_code == (await client.get(path)).status_code
        context.loaded.set()
        await until_ready(client)
        whole, head = await client.get(path), await client.head(path)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == whole.headers["content-length"]


def slow_router() -> APIRouter:
    """A stream and a plain reply that never end by themselves."""
    router = APIRouter()

    async def events() -> AsyncIterator[bytes]:
        yield b'data: "first"\n\n'
        await asyncio.sleep(60)

    @router.get("/stream")
    async def stream() -> StreamingResponse:
        return StreamingResponse(events(), media_type="text/event-stream")

    @router.get("/whole")
    async def whole() -> None:
        await asyncio.sleep(60)

    return router


async def test_what_outlasts_the_time_to_end_is_told_so_without_a_traceback(
    context: Any, running: Any, until_ready: Any, caplog: pytest.LogCaptureFixture
) -> None:
    context.mounted, context.settings.shutdown_timeout_s = [("slow", slow_router())], 0.0
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        pending = [asyncio.create_task(client.get(path)) for path in ("/stream", "/whole")]
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGTERM)
        streamed, whole = await asyncio.wait_for(asyncio.gather(*pending), 10)
        assert await asyncio.wait_for(task, 10) == 0
    first, last = streamed.text.removesuffix("\n\n").split("\n\n")
    assert first == 'data: "first"'
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "server_stopping"
    assert (whole.status_code, whole.json()["error"]["code"]) == (503, "server_stopping")
    assert not any(record.exc_info for record in caplog.records)


def gated_router(go_on: asyncio.Event) -> APIRouter:
    router = APIRouter()

    @router.get("/gated")
    async def gated() -> str:
        await go_on.wait()
        return "done"

    return router


async def test_a_signal_lets_running_requests_end_while_ready_says_so_and_new_ones_are_refused(
    context: Any, running: Any, until_ready: Any
) -> None:
    go_on = asyncio.Event()
    context.mounted.append(("gated", gated_router(go_on)))
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        inside = asyncio.create_task(client.get("/gated"))
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.05)
        async with httpx.AsyncClient(base_url=client.base_url, trust_env=False) as another:  # on a new connection
            ready = await another.get("/ready")
            assert (ready.status_code, ready.json()["reason"]) == (503, "shutting down")
            assert (await another.get("/health")).status_code == 200
            refused = await another.post("/note", json={"text": "late"})
            assert (refused.status_code, refused.headers["connection"]) == (503, "close")
            assert refused.headers["retry-after"] == "1"
        assert not task.done()
        assert not context.services.engine.closed
        go_on.set()
        assert (await inside).status_code == 200
        assert await asyncio.wait_for(task, 5) == 0
    assert context.services.engine.closed


async def test_a_second_signal_ends_at_once(context: Any, running: Any, until_ready: Any) -> None:
    context.mounted = [("slow", slow_router())]
    context.settings.shutdown_timeout_s = 60.0
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        pending = asyncio.create_task(client.get("/whole"))
        await asyncio.sleep(0.1)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.1)
        assert not task.done()
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(task, 2) == 0
        await asyncio.wait({pending})


async def test_an_engine_that_is_not_ready_is_not_the_end(
    context: Any, running: Any, until_ready: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WATCH_INTERVAL_S", 0.02)
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        engine.state = EngineHealth(ready=False, reason="it is being started again")
        await asyncio.sleep(0.2)
        assert (await client.get("/ready")).json() == {"ready": False, "reason": "it is being started again"}
        assert not task.done()
        engine.state = EngineHealth(ready=True)
        await until_ready(client)


async def test_the_limits_of_the_configuration_reach_the_server(context: Any, running: Any, until_ready: Any) -> None:
    context.settings.max_requests, context.settings.docs = 1, False
    context.settings.max_header_bytes, context.settings.body_timeout_s = 500, 0.1
    context.mounted.append(("slow", slow_router()))
    context.loaded.set()

    async def never() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(0.4)

    async with running(context) as (_, client):
        await until_ready(client)
        assert (await client.get("/docs")).status_code == 404
        assert (await client.get("/health", headers={"A": "a" * 500})).status_code == 431
        headers = {"Content-Type": "application/json"}
        late = await client.post("/note", content=never(), headers=headers)
        assert (late.status_code, late.json()["error"]["code"]) == (408, "body_timeout")
        pending = asyncio.create_task(client.get("/whole"))
        await asyncio.sleep(0.1)
        assert (await client.get("/version")).json()["error"]["code"] == "too_many_requests"
        pending.cancel()
        await asyncio.wait({pending})
