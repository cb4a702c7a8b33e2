"""The whole command, in this thread's loop, over a real socket."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from starlette.responses import StreamingResponse

from infer_api.errors import ModelError
from infer_api.services import Services
from infer_server import serving
from infer_server.listen import open_socket, url_of


@dataclass
class FakeContext:
    """A command context whose model 'loads' until `loaded` is set."""

    services: Services
    mounted: list[tuple[str, Any]]
    loaded: asyncio.Event
    fails: Exception | None = None
    said: list[str] = field(default_factory=list)
    shutdown_timeout_s: float = 5.0

    @property
    def config(self) -> Any:
        server = SimpleNamespace(
            host="127.0.0.1", port=0, allowed_origins=(), shutdown_timeout_s=self.shutdown_timeout_s
        )
        return SimpleNamespace(server=server)

    @asynccontextmanager
    async def open_services(self) -> AsyncIterator[Services]:
        await self.loaded.wait()
        if self.fails:
            raise self.fails
        try:
            yield self.services
        finally:
            await self.services.engine.close()

    def routes(self, services: Services) -> list[tuple[str, Any]]:
        return self.mounted

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
async def context(make_services: Callable[..., Services], routers: list[tuple[str, Any]]) -> FakeContext:
    return FakeContext(make_services(), routers, asyncio.Event())


@asynccontextmanager
async def running(context: FakeContext) -> AsyncIterator[tuple[asyncio.Task[int], httpx.AsyncClient]]:
    with open_socket("127.0.0.1", 0) as listener:
        async with httpx.AsyncClient(base_url=url_of(listener), timeout=10) as client:
            task = asyncio.create_task(serving.serve(context, listener))
            try:
                yield task, client
            finally:
                task.cancel()
                await asyncio.wait({task})


async def until_ready(client: httpx.AsyncClient) -> None:
    for _ in range(200):
        if (await client.get("/ready")).status_code == 200:
            return
        await asyncio.sleep(0.02)
    raise AssertionError("the server did not get ready")


async def test_it_is_live_while_loading_then_ready_and_ends_with_0_on_sigterm(context: FakeContext) -> None:
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


async def test_the_command_to_try_is_one_of_a_mounted_router(context: FakeContext) -> None:
    inner, outer = APIRouter(), APIRouter()

    @inner.post("/v1/completions")
    async def completions() -> None: ...

    outer.include_router(inner)
    context.mounted = [("nested", outer)]
    context.loaded.set()
    async with running(context) as (_, client):
        await until_ready(client)
    assert "/v1/completions" in context.said[-1]


async def test_a_signal_while_loading_ends_it_with_0(context: FakeContext) -> None:
    async with running(context) as (task, client):
        assert (await client.get("/health")).status_code == 200
        os.kill(os.getpid(), signal.SIGINT)
        assert await asyncio.wait_for(task, 10) == 0
    assert context.said == []


async def test_a_model_that_cannot_load_ends_it_with_that_error(context: FakeContext) -> None:
    context.fails = ModelError("model.safetensors is truncated")
    context.loaded.set()
    async with running(context) as (task, _):
        with pytest.raises(ModelError, match="truncated"):
            await asyncio.wait_for(task, 10)


async def test_b61_a_dead_engine_ends_the_process_with_1(
    context: FakeContext, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WATCH_INTERVAL_S", 0.05)
    context.loaded.set()
    async with running(context) as (task, client):
        await until_ready(client)
        engine.dead = "the worker was killed"
        assert await asyncio.wait_for(task, 10) == 1
    assert context.said[-1] == "the engine has stopped: the worker was killed"


async def test_a_large_chunked_body_over_a_real_socket_is_413(context: FakeContext) -> None:
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
async def test_head_is_answered_like_get_without_a_body(context: FakeContext, path: str) -> None:
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
    context: FakeContext, caplog: pytest.LogCaptureFixture
) -> None:
    context.mounted, context.shutdown_timeout_s = [("slow", slow_router())], 0.0
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
