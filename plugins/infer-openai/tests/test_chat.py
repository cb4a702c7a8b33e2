from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from infer_api.errors import RequestError

PATH = "/v1/chat/completions"
MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


async def events_of(client: httpx.AsyncClient, body: dict[str, Any]) -> list[Any]:
    reply = await client.post(PATH, json={"messages": MESSAGES, **body, "stream": True})
    assert reply.status_code == 200, reply.text
    lines = [line for line in reply.text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: "), parse_constant=pytest.fail) for line in lines[:-1]]


async def test_a_reply_has_openais_shape(client: httpx.AsyncClient) -> None:
    reply = (await client.post(PATH, json={"messages": MESSAGES})).json()
    assert reply["object"] == "chat.completion"
    assert reply["id"].startswith("chatcmpl-")
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Paris 0", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
            "stop_reason": None,
        }
    ]


@pytest.mark.parametrize("end", [("stop", None), ("length", None), ("stop", "###")])
async def test_b25_role_first_text_then_one_reason_per_choice(
    client: httpx.AsyncClient, outputs: Any, end: Any
) -> None:
    outputs.end = end
    chunks = await events_of(client, {"n": 2})
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    for index in (0, 1):
        choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == index]
        assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        assert all("role" not in choice["delta"] for choice in choices[1:])
        assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [end[0]]
        assert "".join(choice["delta"].get("content", "") for choice in choices) == f"Paris {index}"


async def test_b25_an_answer_without_text_has_role_and_reason(client: httpx.AsyncClient, outputs: Any) -> None:
    outputs.pieces = lambda index: []
    chunks = await events_of(client, {})
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [{"role": "assistant", "content": ""}, {}]
    whole = (await client.post(PATH, json={"messages": MESSAGES})).json()
    assert whole["choices"][0]["message"]["content"] == ""


@pytest.mark.parametrize("fields", [{"logprobs": True}, {"logprobs": True, "top_logprobs": 0}])
async def test_b13_logprobs_alone_report_each_token(client: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    whole = (await client.post(PATH, json={"messages": MESSAGES, **fields})).json()["choices"][0]["logprobs"]
    assert [entry["token"] for entry in whole["content"]] == ["Par", "is", " 0"]
    assert whole["content"][0] == {"token": "Par", "bytes": [80, 97, 114], "logprob": -0.5, "top_logprobs": []}
    chunks = await events_of(client, fields)
    parts = [choice["logprobs"] for chunk in chunks for choice in chunk["choices"] if choice["logprobs"]]
    assert [entry for part in parts for entry in part["content"]] == whole["content"]


async def test_b14_impossible_alternatives_are_strict_json(client: httpx.AsyncClient) -> None:
    fields = {"logprobs": True, "top_logprobs": 5, "top_p": 0.1, "temperature": 1}
    reply = await client.post(PATH, json={"messages": MESSAGES, **fields})
    entry = json.loads(reply.text, parse_constant=pytest.fail)["choices"][0]["logprobs"]["content"][0]
    assert [top["logprob"] for top in entry["top_logprobs"]] == [-0.25, -9999.0, -9999.0, -9999.0, -9999.0]
    streamed = [choice["logprobs"] for chunk in await events_of(client, fields) for choice in chunk["choices"]]
    assert next(part["content"] for part in streamed if part) == [entry]


@pytest.mark.parametrize("stream", [False, True])
async def test_b49_the_renderer_gets_each_kind_of_content(
    client: httpx.AsyncClient, renderer: Any, stream: bool
) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "system", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "user", "content": []},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_call_id": "c1"},
        {"role": "assistant", "content": "x", "tool_calls": []},
    ]
    reply = await client.post(PATH, json={"messages": messages, "stream": stream})
    assert reply.status_code == 200
    assert renderer.chats == [(messages, [], {})]


@pytest.mark.parametrize("stream", [False, True])
async def test_b47_a_refusal_of_the_renderer_is_400_with_its_place(
    client: httpx.AsyncClient, renderer: Any, stream: bool
) -> None:
    renderer.refusal = RequestError("Conversation roles must alternate", param="messages[1].content[0]")
    reply = await client.post(PATH, json={"messages": MESSAGES, "stream": stream})
    assert reply.status_code == 400
    assert reply.headers["content-type"] == "application/json"
    error = reply.json()["error"]
    assert (error["message"], error["param"]) == ("Conversation roles must alternate", "messages[1].content[0]")


async def test_tools_and_template_variables_reach_the_renderer(client: httpx.AsyncClient, renderer: Any) -> None:
    tool = {"type": "function", "function": {"name": "weather"}}
    body = {"messages": MESSAGES, "tools": [tool], "chat_template_kwargs": {"enable_thinking": False}}
    assert (await client.post(PATH, json=body)).status_code == 200
    assert (await client.post(PATH, json={**body, "tool_choice": "none"})).status_code == 200
    assert [chat[1:] for chat in renderer.chats] == [
        ([tool], {"enable_thinking": False}),
        ([], {"enable_thinking": False}),
    ]
    assert (await client.post(PATH, json={**body, "tool_choice": "required"})).status_code == 400


@pytest.mark.parametrize(
    "content",
    [b"{not json", b"[]", b'"x"', b"null", b"", b"\xff\xfe", b'{"messages": [{"role": "user", "content": "\\ud800"}]}'],
)
async def test_b62_a_body_that_is_none_is_400_and_the_next_is_served(client: httpx.AsyncClient, content: bytes) -> None:
    reply = await client.post(PATH, content=content, headers={"Content-Type": "application/json"})
    assert reply.status_code == 400
    assert reply.json()["error"]["message"]
    assert (await client.post(PATH, json={"messages": MESSAGES})).status_code == 200


async def test_more_messages_than_the_model_takes_tokens_are_refused_unrendered(
    client: httpx.AsyncClient, renderer: Any
) -> None:
    reply = await client.post(PATH, json={"messages": [{"role": "user", "content": ""}] * 64})
    error = reply.json()["error"]
    assert (reply.status_code, error["param"], error["code"]) == (400, "messages", "context_length_exceeded")
    assert renderer.chats == []
