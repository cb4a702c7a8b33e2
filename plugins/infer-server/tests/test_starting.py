from __future__ import annotations

import httpx
from starlette.responses import PlainTextResponse

from infer_server.starting import StartingApp


async def test_b61_while_loading_the_process_is_live_and_not_ready() -> None:
    starting = StartingApp()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(starting), base_url="http://server") as client:
        assert (await client.get("/health")).status_code == 200
        assert (await client.get("/ready")).json() == {"ready": False, "reason": "the model is still loading"}
        reply = await client.post("/v1/completions", json={})
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "model_loading"
        assert reply.headers["retry-after"] == "1"

        starting.become(PlainTextResponse("here"))
        assert (await client.get("/ready")).text == "here"
