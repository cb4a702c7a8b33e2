from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest


@pytest.mark.parametrize("path", ["/version", "/plugins", "/openapi.json", "/note", "/nothing"])
async def test_every_path_needs_a_key(make_client: Callable[..., httpx.AsyncClient], path: str) -> None:
    async with make_client("k1") as client:
        for headers in ({}, {"Authorization": "Bearer other"}):
            reply = await client.get(path, headers=headers)
            assert reply.status_code == 401
            assert reply.json()["error"]["code"] == "invalid_api_key"
            assert reply.json()["error"]["type"] == "authentication_error"
            assert reply.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/health", "/ready"])
async def test_health_needs_none(make_client: Callable[..., httpx.AsyncClient], path: str) -> None:
    async with make_client("k1") as client:
        assert (await client.get(path)).status_code == 200


async def test_the_right_key_passes(make_client: Callable[..., httpx.AsyncClient]) -> None:
    async with make_client("k1", "k2") as client:
        assert (await client.get("/version", headers={"Authorization": "Bearer k2"})).status_code == 200


async def test_a_refused_body_is_not_read(make_client: Callable[..., httpx.AsyncClient]) -> None:
    read = []

    async def body():
        read.append(1)
        yield b"{}"

    async with make_client("k1") as client:
        assert (await client.post("/note", content=body())).status_code == 401
    assert read == []
