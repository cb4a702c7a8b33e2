from __future__ import annotations

import httpx


async def test_every_served_name_is_listed(client: httpx.AsyncClient) -> None:
    reply = (await client.get("/v1/models")).json()
    assert reply["object"] == "list"
    assert [entry["id"] for entry in reply["data"]] == ["tiny", "org/tiny-chat"]
    assert reply["data"][0] == {
        "id": "tiny",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "infer",
        "root": "tiny",
        "parent": None,
        "max_model_len": 64,
        "default_sampling": {"temperature": 0.6, "top_k": 20, "unknown_to_sampling": 1},
    }


async def test_one_model_is_found_by_a_name_with_slashes(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/models/org/tiny-chat")).json()["id"] == "org/tiny-chat"


async def test_an_unknown_model_is_404_with_the_nearest_name(client: httpx.AsyncClient) -> None:
    for reply in (
        await client.get("/v1/models/tinny"),
        await client.post("/v1/completions", json={"model": "tinny", "prompt": "a"}),
        await client.post("/v1/completions", json={"model": "tinny", "prompt": "a", "stream": True}),
        await client.post("/v1/chat/completions", json={"model": "tinny", "messages": [{"role": "user"}]}),
        await client.post("/tokenize", json={"model": "tinny", "prompt": "a"}),
    ):
        assert reply.status_code == 404
        error = reply.json()["error"]
        assert (error["code"], error["param"]) == ("model_not_found", "model")
        assert "'tiny'" in error["message"]
