from __future__ import annotations

import asyncio

import httpx


async def test_a_clients_id_is_echoed(client: httpx.AsyncClient) -> None:
    for path in ("/health", "/nothing"):
        assert (await client.get(path, headers={"X-Request-Id": "abc-1"})).headers["x-request-id"] == "abc-1"


async def test_without_one_each_reply_has_its_own(client: httpx.AsyncClient) -> None:
    ids = {(await client.get("/health")).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3


async def test_an_id_that_is_too_long_or_has_spaces_is_replaced(client: httpx.AsyncClient) -> None:
    for odd in ("x" * 129, "a b"):
        assert (await client.get("/health", headers={"X-Request-Id": odd})).headers["x-request-id"].startswith("req-")


async def test_b53_two_requests_may_carry_the_same_id(client: httpx.AsyncClient) -> None:
    headers = {"X-Request-Id": "same"}
    replies = await asyncio.gather(*(client.post("/note", json={"text": t}, headers=headers) for t in "ab"))
    assert [reply.json()["text"] for reply in replies] == ["a", "b"]
    assert {reply.headers["x-request-id"] for reply in replies} == {"same"}
