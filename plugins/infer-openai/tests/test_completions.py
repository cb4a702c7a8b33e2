from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

PATH = "/v1/completions"


async def events_of(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Any]:
    reply = await client.post(PATH, json={**body, "stream": True})
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"].startswith("text/event-stream")
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def joined(chunks: list[Any]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts


async def test_a_reply_has_openais_shape(client: httpx.AsyncClient) -> None:
    reply = (await client.post(PATH, json={"model": "tiny", "prompt": "ab"})).json()
    assert reply.pop("id").startswith("cmpl-")
    assert reply.pop("created") > 1_700_000_000
    assert reply == {
        "object": "text_completion",
        "model": "tiny",
        "system_fingerprint": "fp_1",
        "choices": [{"index": 0, "text": "Paris 0", "logprobs": None, "finish_reason": "stop", "stop_reason": None}],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": 7,
            "total_tokens": 10,
            "prompt_tokens_details": {"cached_tokens": 2},
        },
    }


async def test_b64_prompts_and_choices_keep_their_order(client: httpx.AsyncClient) -> None:
    prompts = ["A long prompt", "B", "C"]
    reply = (await client.post(PATH, json={"prompt": prompts, "n": 2, "echo": True})).json()
    assert [choice["index"] for choice in reply["choices"]] == [0, 1, 2, 3, 4, 5]
    expected = [f"{prompts[i // 2]}Paris {i}" for i in range(6)]
    assert [choice["text"] for choice in reply["choices"]] == expected
    assert reply["usage"]["prompt_tokens"] == 14 + 2 + 2


async def test_b64_a_stream_says_the_same(client: httpx.AsyncClient) -> None:
    prompts = ["A long prompt", "B", "C"]
    chunks = await events_of(client, {"prompt": prompts, "n": 2, "echo": True})
    assert joined(chunks) == {i: f"{prompts[i // 2]}Paris {i}" for i in range(6)}
    first = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        first.setdefault(choice["index"], choice["text"])
    assert first == {i: prompts[i // 2] for i in range(6)}


async def test_prompts_of_ids_are_echoed_as_text(client: httpx.AsyncClient) -> None:
    reply = (await client.post(PATH, json={"prompt": [[97, 98], [99]], "echo": True})).json()
    assert [choice["text"] for choice in reply["choices"]] == ["abParis 0", "cParis 1"]


@pytest.mark.parametrize("end", [("stop", None), ("length", None), ("stop", "###"), ("stop", 7), ("abort", None)])
async def test_b25_each_choice_ends_exactly_once(client: httpx.AsyncClient, outputs: Any, end: Any) -> None:
    outputs.end = end
    chunks = await events_of(client, {"prompt": "a", "n": 3})
    reasons: dict[int, list[Any]] = {}
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        reasons.setdefault(choice["index"], []).append(choice["finish_reason"])
    assert sorted(reasons) == [0, 1, 2]
    for of_choice in reasons.values():
        assert of_choice[-1] == end[0]
        assert set(of_choice[:-1]) == {None}
    whole = (await client.post(PATH, json={"prompt": "a"})).json()["choices"][0]
    assert (whole["finish_reason"], whole["stop_reason"]) == end


async def test_usage_is_the_last_chunk_when_asked_for(client: httpx.AsyncClient) -> None:
    chunks = await events_of(client, {"prompt": "a", "stream_options": {"include_usage": True}})
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] == 9
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    plain = await events_of(client, {"prompt": "a"})
    assert all("usage" not in chunk for chunk in plain)
    assert len(plain) == len(chunks) - 1


@pytest.mark.parametrize("logprobs", [0, 3])
async def test_b14_logprobs_are_strict_json_and_equal_in_a_stream(client: httpx.AsyncClient, logprobs: int) -> None:
    body = {"prompt": "a", "logprobs": logprobs}
    reply = await client.post(PATH, json=body)
    whole = json.loads(reply.text, parse_constant=pytest.fail)["choices"][0]["logprobs"]
    assert whole["tokens"] == ["Par", "is", " 0"]
    assert whole["token_logprobs"] == [-0.5] * 3
    assert whole["text_offset"] == [0, 3, 5]
    alternatives = {f"t{rank}": -9999.0 if rank else -0.25 for rank in range(logprobs)}
    assert whole["top_logprobs"][1] == {**alternatives, "is": -0.5}
    parts = [choice["logprobs"] for chunk in await events_of(client, body) for choice in chunk["choices"]]
    for key, values in whole.items():
        assert [value for part in parts if part for value in part[key]] == values


async def test_the_model_is_called_as_the_client_called_it(client: httpx.AsyncClient) -> None:
    assert (await client.post(PATH, json={"model": "org/tiny-chat", "prompt": "a"})).json()["model"] == "org/tiny-chat"
    assert (await client.post(PATH, json={"prompt": "a"})).json()["model"] == "tiny"


@pytest.mark.parametrize(("num_prompts", "n", "status"), [(1, 8, 200), (2, 4, 200), (2, 5, 400), (4, 8, 400)])
async def test_choices_of_all_prompts_together_are_limited(
    client: httpx.AsyncClient, num_prompts: int, n: int, status: int
) -> None:
    reply = await client.post(PATH, json={"prompt": ["a"] * num_prompts, "n": n})
    assert reply.status_code == status
    if status == 400:
        error = reply.json()["error"]
        assert error["param"] == "n"
        assert f"{num_prompts} x {n} = {num_prompts * n}" in error["message"]
        assert "--server.max-prompts" in error["message"]
        assert "--server.max-n" in error["message"]
