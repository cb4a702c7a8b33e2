from __future__ import annotations

from typing import Any

import httpx

from infer_api.requests import EngineHealth


async def test_health_is_200_even_when_the_engine_is_not(client: httpx.AsyncClient, engine: Any) -> None:
    engine.dead = "killed"
    reply = await client.get("/health")
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


async def test_ready_follows_the_engine(client: httpx.AsyncClient, engine: Any) -> None:
    assert (await client.get("/ready")).status_code == 200
    engine.state = EngineHealth(ready=False, reason="no step for 31 s")
    reply = await client.get("/ready")
    assert (reply.status_code, reply.json()) == (503, {"ready": False, "reason": "no step for 31 s"})


async def test_version_and_plugins_are_listed(client: httpx.AsyncClient) -> None:
    assert (await client.get("/version")).json() == {"version": "0.1.0", "fingerprint": "abc123"}
    assert (await client.get("/plugins")).json() == {"plugins": [{"kind": "routes", "name": "note", "state": "loaded"}]}
