from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from infer_api.requests import SamplingParams

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
MESSAGES = [{"role": "user", "content": "hi"}]


async def test_what_is_not_sent_takes_the_checkpoints_default(client: httpx.AsyncClient, outputs: Any) -> None:
    await client.post(CHAT, json={"messages": MESSAGES})
    assert outputs.asked == [SamplingParams(temperature=0.6, top_k=20)]


async def test_what_is_sent_wins_and_null_means_not_sent(client: httpx.AsyncClient, outputs: Any) -> None:
    await client.post(CHAT, json={"messages": MESSAGES, "temperature": 1, "top_k": 0, "top_p": None, "n": None})
    assert outputs.asked == [SamplingParams(temperature=1.0, top_k=0)]


async def test_every_field_arrives(client: httpx.AsyncClient, outputs: Any) -> None:
    fields = {
        "n": 2,
        "min_tokens": 1,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "presence_penalty": 0.2,
        "frequency_penalty": -0.3,
        "repetition_penalty": 1.1,
        "include_stop_str_in_output": True,
        "ignore_eos": True,
        "skip_special_tokens": False,
        "seed": 5,
        "prompt_logprobs": 2,
        "logprobs_mode": "processed",
    }
    body = {**fields, "stop": ["x", "y"], "stop_token_ids": [3], "logit_bias": {"12": -5}, "max_tokens": 9}
    body |= {"bad_words": ["cat"], "allowed_token_ids": [7, 4], "logits_processors": {"window": {"size": 3}}}
    expected = SamplingParams(
        **fields,
        stop=("x", "y"),
        stop_token_ids=(3,),
        logit_bias={12: -5.0},
        max_tokens=9,
        bad_words=("cat",),
        allowed_token_ids=(7, 4),
        processors={"window": {"size": 3}},
    )
    await client.post(CHAT, json={"messages": MESSAGES, **body})
    await client.post(COMPLETIONS, json={"prompt": "a", **body})
    assert outputs.asked == [expected, expected]


async def test_one_stop_string_is_a_list_of_one(client: httpx.AsyncClient, outputs: Any) -> None:
    await client.post(CHAT, json={"messages": MESSAGES, "stop": "x"})
    assert outputs.asked[0].stop == ("x",)


async def test_a_completion_makes_16_tokens_or_what_fits(client: httpx.AsyncClient, outputs: Any) -> None:
    await client.post(COMPLETIONS, json={"prompt": "a"})
    await client.post(COMPLETIONS, json={"prompt": ["a", "b" * 58]})
    assert [asked.max_tokens for asked in outputs.asked] == [16, 5]


async def test_both_names_of_the_chat_limit_work(client: httpx.AsyncClient, outputs: Any) -> None:
    for limits in ({"max_tokens": 5}, {"max_completion_tokens": 5}, {"max_tokens": 5, "max_completion_tokens": 5}):
        assert (await client.post(CHAT, json={"messages": MESSAGES, **limits})).status_code == 200
    assert [asked.max_tokens for asked in outputs.asked] == [5, 5, 5]


async def test_an_error_of_the_limit_uses_the_name_that_was_sent(client: httpx.AsyncClient) -> None:
    reply = await client.post(CHAT, json={"messages": MESSAGES, "max_completion_tokens": 5000})
    error = reply.json()["error"]
    assert error["param"] == "max_completion_tokens"
    assert "max_completion_tokens" in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": "2"}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": True}, "n"),
        ({"temperature": "0.5"}, "temperature"),
        ({"temperature": 1e999}, "temperature"),
        ({"stream": 1}, "stream"),
        ({"stop": [1]}, "stop[0]"),
        ({"stop_token_ids": ["3"]}, "stop_token_ids[0]"),
        ({"bad_words": "x"}, "bad_words"),
        ({"bad_words": [1]}, "bad_words[0]"),
        ({"allowed_token_ids": [1.0]}, "allowed_token_ids[0]"),
        ({"prompt_logprobs": True}, "prompt_logprobs"),
        ({"logprobs_mode": "cooked"}, "logprobs_mode"),
        ({"priority": "high"}, "priority"),
        ({"cache_salt": 5}, "cache_salt"),
        ({"logits_processors": ["a.b:C"]}, "logits_processors"),
        ({"logits_processors": {"a": 5}}, "logits_processors.a"),
        ({"logit_bias": {"a": 1}}, "logit_bias"),
        ({"logit_bias": {"-1": 1}}, "logit_bias"),
        ({"logit_bias": {"1": "x"}}, "logit_bias.1"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"top_logprobs": 6, "logprobs": True}, "top_logprobs"),
        ({"top_logprobs": -1, "logprobs": True}, "top_logprobs"),
        ({"logprobs": 2}, "logprobs"),
        ({"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
        ({"stream": True, "stream_options": {"include_usge": True}}, "include_usge"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"echo": True}, "echo"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_wrong_field_of_a_chat_is_400_and_named(
    client: httpx.AsyncClient, outputs: Any, fields: dict[str, Any], param: str, stream: bool
) -> None:
    content = httpx.Request("POST", "http://x", json={"stream": stream, "messages": MESSAGES}).content
    body = _with(content, fields)
    reply = await client.post(CHAT, content=body, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["param"] == param
    assert outputs.asked == []


def _with(content: bytes, fields: dict[str, Any]) -> bytes:
    """`content` with more fields, where infinity is spelled as a number that is too large."""
    text = json.dumps({**json.loads(content), **fields})
    return text.replace("Infinity", "1e999").encode()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"best_of": 3}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"logprobs": True}, "logprobs"),
        ({"max_tokens": "3"}, "max_tokens"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [[1], "x", 3]}, "prompt[2]"),
        ({"prompt": ["a"] * 5}, "prompt"),
        ({"prompt": [[1], [999]]}, "prompt[1]"),
        ({"prompt": None}, "prompt"),
    ],
)
async def test_a_wrong_field_of_a_completion_is_400_and_named(
    client: httpx.AsyncClient, outputs: Any, fields: dict[str, Any], param: str
) -> None:
    reply = await client.post(COMPLETIONS, json={"prompt": "a", **fields})
    assert reply.status_code == 400, reply.text
    assert reply.json()["error"]["param"] == param
    assert outputs.asked == []


async def test_stream_options_without_a_stream_are_refused(client: httpx.AsyncClient) -> None:
    reply = await client.post(CHAT, json={"messages": MESSAGES, "stream_options": {"include_usage": True}})
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stream_options")


async def test_neutral_and_irrelevant_fields_pass(client: httpx.AsyncClient) -> None:
    body = {"prompt": "a", "best_of": 2, "n": 2, "suffix": None, "user": "me", "metadata": {"a": "b"}, "echo": False}
    assert (await client.post(COMPLETIONS, json=body)).status_code == 200
    chat = {"messages": MESSAGES, "response_format": {"type": "text"}, "store": True, "functions": None}
    assert (await client.post(CHAT, json=chat)).status_code == 200


async def test_priority_and_salt_go_with_every_prompt(client: httpx.AsyncClient, outputs: Any) -> None:
    """B56."""
    fields = {"priority": -2, "cache_salt": "mine"}
    await client.post(COMPLETIONS, json={"prompt": ["a", "b"], **fields})
    await client.post(CHAT, json={"messages": MESSAGES, **fields})
    await client.post(CHAT, json={"messages": MESSAGES, "cache_salt": None})
    placed = [(prompt.priority, prompt.cache_salt) for prompt in outputs.prompts]
    assert placed == [(-2, "mine")] * 3 + [(0, "")]


@pytest.mark.parametrize(
    ("fields", "scored"),
    [
        ({}, None),
        ({"echo": True}, None),
        ({"logprobs": 3}, None),
        ({"echo": True, "logprobs": 0}, 0),
        ({"echo": True, "logprobs": 2, "prompt_logprobs": 3}, 3),
        ({"logprobs": 2, "prompt_logprobs": 1}, 1),
        ({"echo": True, "max_tokens": 0}, 0),
    ],
)
async def test_an_echo_with_logprobs_asks_for_scores_of_the_prompt(
    client: httpx.AsyncClient, outputs: Any, fields: dict[str, Any], scored: int | None
) -> None:
    """B16."""
    await client.post(COMPLETIONS, json={"prompt": "a", **fields})
    assert [asked.prompt_logprobs for asked in outputs.asked] == [scored]


async def test_b53_requests_with_one_id_are_told_apart_and_the_id_goes_along(
    client: httpx.AsyncClient, outputs: Any
) -> None:
    headers = {"X-Request-Id": "same"}
    replies = [await client.post(COMPLETIONS, json={"prompt": "a"}, headers=headers) for _ in range(2)]
    assert {reply.headers["x-request-id"] for reply in replies} == {"same"}
    assert len({reply.json()["id"] for reply in replies}) == 2
    assert outputs.clients == ["same", "same"]


async def test_the_trace_of_a_client_goes_along(client: httpx.AsyncClient, outputs: Any) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await client.post(COMPLETIONS, json={"prompt": "a"}, headers={"traceparent": parent})
    await client.post(COMPLETIONS, json={"prompt": "a"})
    assert outputs.traces == [parent, ""]
