from __future__ import annotations

from collections.abc import Callable
from typing import Any


async def test_every_route_says_which_errors_there_are(make_client: Callable[..., Any]) -> None:
    async with make_client() as client:
        schema = (await client.get("/openapi.json")).json()
    assert "securitySchemes" not in schema["components"]
    assert "HTTPValidationError" not in schema["components"]["schemas"]
    for path, item in schema["paths"].items():
        for operation in item.values():
            assert "422" not in operation["responses"]
            assert operation["responses"]["default"]["content"]["application/json"]["schema"] == {
                "$ref": "#/components/schemas/Error"
            }
            assert ("503" in operation["responses"]) is (path != "/health")
            assert "401" not in operation["responses"]


async def test_with_keys_every_route_but_the_open_ones_says_so(make_client: Callable[..., Any]) -> None:
    async with make_client("k") as client:
        schema = (await client.get("/openapi.json", headers={"X-Api-Key": "k"})).json()
    assert set(schema["components"]["securitySchemes"]) == {"bearer", "header"}
    for path, item in schema["paths"].items():
        for operation in item.values():
            needs_key = path not in ("/health", "/ready")
            assert ("401" in operation["responses"]) is needs_key
            assert ("security" in operation) is needs_key


async def test_errors_are_as_the_schema_has_them(make_client: Callable[..., Any]) -> None:
    async with make_client() as client:
        error = (await client.get("/openapi.json")).json()["components"]["schemas"]["Error"]["properties"]["error"]
        reply = (await client.post("/note", json={})).json()
    assert set(reply["error"]) == set(error["required"])
