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


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Api-Key": "k2"}, 200),
        ({"X-Api-Key": "k2", "Authorization": "Bearer dummy"}, 200),
        ({"X-Api-Key": "", "Authorization": "Bearer k2"}, 200),
        ({"X-Api-Key": "k"}, 401),
        ({"X-Api-Key": ""}, 401),
        ({"X-Api-Key": "Bearer k2"}, 401),
    ],
)
async def test_a_key_may_come_in_a_header_of_its_own(
    headers: dict[str, str], status: int, make_client: Callable[..., httpx.AsyncClient]
) -> None:
    async with make_client("k1", "k2") as client:
        assert (await client.get("/version", headers=headers)).status_code == status


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
