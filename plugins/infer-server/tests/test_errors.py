from __future__ import annotations

import json

import httpx

from infer_server.errors import describe, error_response, field_path


async def test_a_request_error_keeps_its_status_code_and_param(client: httpx.AsyncClient) -> None:
    reply = await client.get("/fail/refused")
    assert reply.status_code == 422
    error = reply.json()["error"]
    assert error == {
        "message": "stop: 9 strings, 4 are allowed",
        "type": "invalid_request_error",
        "param": "stop",
        "code": "too_many",
    }


async def test_a_dead_engine_is_503(client: httpx.AsyncClient) -> None:
    reply = await client.get("/fail/dead")
    assert reply.status_code == 503
    assert reply.headers["retry-after"] == "1"
    assert reply.json()["error"] == {
        "message": "the worker was killed",
        "type": "server_error",
        "param": None,
        "code": "engine_dead",
    }


async def test_when_to_come_back_is_said_in_whole_seconds(client: httpx.AsyncClient) -> None:
    reply = await client.get("/fail/full")
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "3")
    assert reply.json()["error"]["code"] == "queue_full"


async def test_a_bug_is_500_with_the_request_id_and_without_its_text(client: httpx.AsyncClient) -> None:
    reply = await client.get("/fail/bug", headers={"X-Request-Id": "mine-1"})
    assert reply.status_code == 500
    assert reply.json()["error"]["code"] == "internal_error"
    assert reply.headers["x-request-id"] == "mine-1"
    assert "secret" not in reply.text
    assert "Traceback" not in reply.text


async def test_an_unknown_route_is_404_in_the_same_shape(client: httpx.AsyncClient) -> None:
    reply = await client.post("/v1/nothing", json={})
    assert reply.status_code == 404
    assert reply.json()["error"]["code"] == "not_found"
    assert "POST /v1/nothing" in reply.json()["error"]["message"]


async def test_a_wrong_method_is_405_and_names_the_right_one(client: httpx.AsyncClient) -> None:
    reply = await client.get("/note")
    assert reply.status_code == 405
    assert reply.json()["error"]["code"] == "method_not_allowed"
    assert reply.headers["allow"] == "POST"


async def test_a_wrong_field_is_400_with_its_path(client: httpx.AsyncClient) -> None:
    reply = await client.post("/note", json={"text": "a", "counts": [1, "2"]})
    assert reply.status_code == 400
    error = reply.json()["error"]
    assert error["param"] == "counts[1]"
    assert '"2"' in error["message"]


async def test_a_missing_field_is_named(client: httpx.AsyncClient) -> None:
    error = (await client.post("/note", json={})).json()["error"]
    assert (error["param"], error["code"]) == ("text", "missing_field")


async def test_a_long_wrong_value_is_not_repeated_whole(client: httpx.AsyncClient) -> None:
    reply = await client.post("/note", json={"text": ["x" * 3000]})
    assert len(reply.json()["error"]["message"]) < 200


def test_a_path_joins_names_and_positions() -> None:
    assert field_path(("body", "messages", 0, "content", 2, "type")) == "messages[0].content[2].type"
    assert field_path(("body",)) == ""


def test_a_message_that_is_no_unicode_can_still_be_sent() -> None:
    failure = describe(ValueError("\ud800"))
    body = error_response(type(failure)(400, "half \ud800", "code", "\udfff")).body
    assert json.loads(bytes(body))["error"]["param"] == "\udfff"
