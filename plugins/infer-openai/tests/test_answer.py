from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from infer_api.errors import EngineDeadError, RequestError
from infer_openai.answer import error_event

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
BODIES = [(CHAT, {"messages": [{"role": "user", "content": "hi"}]}), (COMPLETIONS, {"prompt": "hi"})]


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fields", [{"n": 0}, {"max_tokens": 500}])
async def test_b26_a_refused_request_is_a_plain_400(
    client: httpx.AsyncClient, path: str, body: dict[str, Any], stream: bool, fields: dict[str, int]
) -> None:
    reply = await client.post(path, json={**body, **fields, "stream": stream})
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
    assert reply.json()["error"]["param"] == next(iter(fields))


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("echo", [False, True])
async def test_b26_an_error_before_the_first_token_is_no_stream(
    client: httpx.AsyncClient, outputs: Any, path: str, body: dict[str, Any], echo: bool
) -> None:
    outputs.fails_at, outputs.failure = 0, EngineDeadError("the worker was killed")
    fields = {"echo": True} if echo and path == COMPLETIONS else {}
    for stream in (False, True):
        reply = await client.post(path, json={**body, **fields, "stream": stream})
        assert reply.status_code == 503
        assert reply.json()["error"]["code"] == "engine_dead"


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize(
    "failure", [EngineDeadError("the worker was killed"), RequestError("NaN", code="generation_failed", status=500)]
)
async def test_b26_a_later_error_is_the_last_event_and_its_twin_is_5xx(
    client: httpx.AsyncClient, outputs: Any, path: str, body: dict[str, Any], failure: Exception
) -> None:
    outputs.fails_at, outputs.failure = 2, failure
    streamed = await client.post(path, json={**body, "stream": True})
    lines = [line for line in streamed.text.split("\n\n") if line]
    assert streamed.status_code == 200
    assert json.loads(lines[-1].removeprefix("data: "))["error"]["message"] == str(failure)
    assert all("error" not in json.loads(line.removeprefix("data: ")) for line in lines[:-1])
    assert len(lines) > 1
    assert (await client.post(path, json={**body, "stream": False})).status_code >= 500
    assert (outputs.num_open, outputs.num_aborted) == (0, 0)


async def test_a_bug_in_a_stream_ends_it_without_telling_its_text(client: httpx.AsyncClient, outputs: Any) -> None:
    outputs.fails_at, outputs.failure = 1, KeyError("secret")
    reply = await client.post(COMPLETIONS, json={"prompt": "a", "stream": True})
    assert reply.text.count('"internal_error"') == 1
    assert "secret" not in reply.text


@pytest.mark.parametrize(("path", "body"), BODIES)
@pytest.mark.parametrize("hangs_at", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_b52_a_client_that_leaves_aborts_its_request(
    url: str, outputs: Any, path: str, body: dict[str, Any], hangs_at: int, stream: bool
) -> None:
    outputs.hangs_at = hangs_at
    with httpx.Client(base_url=url) as client, pytest.raises(httpx.ReadTimeout):
        client.post(path, json={**body, "n": 2, "stream": stream}, timeout=0.3)
    deadline = time.monotonic() + 5
    while outputs.num_open and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (outputs.num_open, outputs.num_aborted) == (0, 1)


async def test_a_finished_stream_is_not_aborted(client: httpx.AsyncClient, outputs: Any) -> None:
    await asyncio.gather(*(client.post(path, json={**body, "stream": True}) for path, body in BODIES * 5))
    assert (outputs.num_open, outputs.num_aborted) == (0, 0)


async def test_replies_to_a_stream_are_not_cached(client: httpx.AsyncClient) -> None:
    reply = await client.post(COMPLETIONS, json={"prompt": "a", "stream": True})
    assert reply.headers["cache-control"] == "no-cache"
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"


def test_an_error_event_is_ascii_json_with_the_parameter() -> None:
    event = error_event(RequestError("half \ud800", param="stop"))
    assert json.loads(event.removeprefix(b"data: ").decode("ascii"))["error"]["param"] == "stop"
