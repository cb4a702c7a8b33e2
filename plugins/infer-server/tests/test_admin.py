from __future__ import annotations

from typing import Any

import httpx

from infer_api.requests import EngineHealth, EngineStats


async def test_health_is_200_even_when_the_engine_is_not(client: httpx.AsyncClient, engine: Any) -> None:
    engine.dead = "killed"
    reply = await client.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


async def test_ready_follows_the_engine(client: httpx.AsyncClient, engine: Any) -> None:
    assert (await client.get("/ready")).status_code == 200
    engine.state = EngineHealth(ready=False, reason="no step for 31 s")
    reply = await client.get("/ready")
    assert (reply.status_code, reply.json()) == (503, {"ready": False, "reason": "no step for 31 s"})
    assert reply.headers["retry-after"] == "1"


async def test_version_and_plugins_are_listed(client: httpx.AsyncClient) -> None:
    assert (await client.get("/version")).json() == {"version": "0.1.0", "fingerprint": "abc123"}
    assert (await client.get("/plugins")).json() == {"plugins": [{"kind": "routes", "name": "note", "state": "loaded"}]}


async def test_the_engines_figures_are_plain_numbers(client: httpx.AsyncClient) -> None:
    stats = (await client.get("/stats")).json()
    assert set(stats) == set(EngineStats.__struct_fields__)
    assert stats["capacity_tokens"] == 12_288


async def test_the_prefix_cache_can_be_reset_with_the_key_only(make_client: Any, engine: Any) -> None:
    async with make_client("k1") as client:
        assert (await client.post("/reset_prefix_cache")).status_code == 401
        key = {"Authorization": "Bearer k1"}
        assert (await client.post("/reset_prefix_cache", headers=key)).json() == {"reset": True}
        engine.is_busy = True
        assert (await client.post("/reset_prefix_cache", headers=key)).json() == {"reset": False}
        wrong = await client.get("/reset_prefix_cache", headers=key)
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


async def test_a_dead_engine_has_no_figures_and_says_so(client: httpx.AsyncClient, engine: Any) -> None:
    engine.dead = "killed"
    reply = await client.get("/stats")
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "engine_dead")
