from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from fastapi import APIRouter

from infer_server.gate import Gate


def waiting_router(go_on: asyncio.Event) -> APIRouter:
    router = APIRouter()

    @router.get("/wait")
    async def wait() -> str:
        await go_on.wait()
        return "done"

    @router.get("/metrics")
    async def metrics() -> str:
        return "up 1"

    return router


async def test_requests_beyond_the_limit_are_503_with_retry_after(make_client: Callable[..., Any]) -> None:
    go_on = asyncio.Event()
    async with make_client(routers=[waiting_router(go_on)], gate=Gate(max_requests=2)) as client:
        inside = [asyncio.create_task(client.get("/wait")) for _ in range(2)]
        await asyncio.sleep(0.01)
        refused = await client.get("/version")
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert refused.json()["error"]["code"] == "too_many_requests"
        assert "2 requests" in refused.json()["error"]["message"]
        assert "server.max_requests" in refused.json()["error"]["message"]
        for path in ("/health", "/ready", "/metrics"):
            assert (await client.get(path)).status_code == 200
        go_on.set()
        assert [(await each).status_code for each in inside] == [200, 200]
        assert (await client.get("/version")).status_code == 200


async def test_a_closed_gate_lets_running_requests_end_and_is_idle_then(make_client: Callable[..., Any]) -> None:
    go_on, gate = asyncio.Event(), Gate(max_requests=2)
    async with make_client(routers=[waiting_router(go_on)], gate=gate) as client:
        inside = asyncio.create_task(client.get("/wait"))
        await asyncio.sleep(0.01)
        gate.close("shutting down")
        idle = asyncio.create_task(gate.wait_until_idle())
        ready = await client.get("/ready")
        assert (ready.status_code, ready.json()["reason"]) == (503, "shutting down")
        assert ready.headers["retry-after"] == "1"
        assert (await client.get("/health")).status_code == 200
        refused: httpx.Response = await client.post("/note", json={"text": "late"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "server_stopping")
        assert (refused.headers["connection"], refused.headers["retry-after"]) == ("close", "1")
        assert not idle.done()
        go_on.set()
        assert (await inside).status_code == 200
        await asyncio.wait_for(idle, 1)
