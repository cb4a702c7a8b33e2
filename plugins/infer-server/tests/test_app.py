from __future__ import annotations

from collections.abc import Callable

import httpx

PREFLIGHT = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}


async def test_pages_of_other_origins_are_shut_out_by_default(client: httpx.AsyncClient) -> None:
    reply = await client.get("/health", headers={"Origin": "https://page.example"})
    assert "access-control-allow-origin" not in reply.headers
    assert (await client.options("/note", headers=PREFLIGHT)).status_code == 405


async def test_an_allowed_origin_may_call_even_with_keys(make_client: Callable[..., httpx.AsyncClient]) -> None:
    async with make_client("k1", allowed_origins=("https://page.example",)) as client:
        reply = await client.options("/note", headers=PREFLIGHT)
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-origin"] == "https://page.example"
        refused = await client.options("/note", headers={**PREFLIGHT, "Origin": "https://other.example"})
        assert "access-control-allow-origin" not in refused.headers


async def test_pages_about_the_api_need_a_key_like_everything_else(
    make_client: Callable[..., httpx.AsyncClient],
) -> None:
    async with make_client("k1") as client:
        for path in ("/docs", "/openapi.json"):
            assert (await client.get(path)).status_code == 401
            assert (await client.get(path, headers={"X-Api-Key": "k1"})).status_code == 200


async def test_pages_about_the_api_can_be_left_out(make_client: Callable[..., httpx.AsyncClient]) -> None:
    async with make_client(docs=False) as client:
        for path in ("/docs", "/openapi.json", "/redoc"):
            assert (await client.get(path)).status_code == 404
        assert (await client.get("/version")).status_code == 200


async def test_a_trailing_slash_is_another_path(client: httpx.AsyncClient) -> None:
    assert (await client.get("/health/")).status_code == 404
