from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from pydantic import BaseModel

from infer_api.errors import EngineDeadError, RequestError
from infer_api.options import Options
from infer_openai.bodies import ChatBody
from infer_openai.describing import described
from infer_openai.replies import (
    ChatReply,
    CompletionReply,
    DetokenizeReply,
    ErrorReply,
    ModelReply,
    ModelsReply,
    TokenizeReply,
)

MESSAGES = [{"role": "user", "content": "hi"}]


class Leaf(BaseModel):
    """A part of parameters, which pydantic puts under $defs."""

    weight: float
    parts: list[Leaf] = []


class Window(Options):
    size: int = 3
    """Tokens that are looked at."""
    leaf: Leaf | None = None


@pytest.fixture
async def api(client: httpx.AsyncClient) -> dict[str, Any]:
    return (await client.get("/openapi.json")).json()


@pytest.mark.parametrize(
    ("method", "path", "body", "model"),
    [
        ("GET", "/v1/models", None, ModelsReply),
        ("GET", "/v1/models/tiny", None, ModelReply),
        ("POST", "/v1/completions", {"prompt": "a", "echo": True}, CompletionReply),
        ("POST", "/v1/completions", {"prompt": ["a", "b"], "n": 2, "logprobs": 2}, CompletionReply),
        ("POST", "/v1/chat/completions", {"messages": MESSAGES}, ChatReply),
        ("POST", "/v1/chat/completions", {"messages": MESSAGES, "logprobs": True, "top_logprobs": 2}, ChatReply),
        ("POST", "/tokenize", {"prompt": "a"}, TokenizeReply),
        ("POST", "/tokenize", {"prompt": "a", "return_token_strs": True}, TokenizeReply),
        ("POST", "/detokenize", {"tokens": [97]}, DetokenizeReply),
    ],
)
async def test_replies_are_what_the_schema_says(
    client: httpx.AsyncClient, api: dict[str, Any], method: str, path: str, body: Any, model: type[BaseModel]
) -> None:
    reply = await client.request(method, path, json=body)
    assert reply.status_code == 200
    model.model_validate_json(reply.text, strict=True)
    documented = api["paths"][path if path != "/v1/models/tiny" else "/v1/models/{model_id}"][method.lower()]
    schema = documented["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema["$ref"].rpartition("/")[2] == model.__name__


@pytest.mark.parametrize("failure", [EngineDeadError("gone"), RequestError("full", code="queue_full", status=503)])
async def test_errors_are_what_the_schema_says(
    client: httpx.AsyncClient, outputs: Any, api: dict[str, Any], failure: Exception
) -> None:
    outputs.fails_at, outputs.failure = 0, failure
    replies = [await client.post("/v1/completions", json=body) for body in ({"prompt": "a"}, {}, {"prompt": 5})]
    assert [reply.status_code for reply in replies] == [503, 400, 400]
    for reply in replies:
        ErrorReply.model_validate_json(reply.text, strict=True)
    for path, methods in api["paths"].items():
        if path.startswith("/v1") or path.endswith("tokenize"):
            for operation in methods.values():
                assert {"200", "4XX", "5XX"} <= operation["responses"].keys(), path


def test_routes_that_stream_say_so(api: dict[str, Any]) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        assert "text/event-stream" in api["paths"][path]["post"]["responses"]["200"]["content"]


def test_the_schema_of_a_body_lists_each_processor_with_its_parameters() -> None:
    body = described(ChatBody, {"window": Window.model_json_schema()})
    field = body.model_json_schema()["properties"]["logits_processors"]
    assert "extra_body" in field["description"]
    schema = field["anyOf"][0]
    assert schema["additionalProperties"] is False
    window = schema["properties"]["window"]["properties"]
    assert window["size"] == {
        "default": 3, "description": "Tokens that are looked at.", "title": "Size", "type": "integer",
    }  # fmt: skip
    assert window["leaf"]["anyOf"][0]["properties"]["weight"]["type"] == "number"
    assert "$ref" not in json.dumps(field), "definitions are not where an OpenAPI document would look"
    read = body.model_validate({"messages": MESSAGES, "logits_processors": {"window": {"size": 5}}})
    assert read.logits_processors == {"window": {"size": 5}}


def test_without_processors_none_may_be_asked_for(api: dict[str, Any]) -> None:
    for name in ("ChatBody", "CompletionBody"):
        schema = api["components"]["schemas"][name]["properties"]["logits_processors"]
        assert schema["anyOf"][0] == {"type": "object", "properties": {}, "additionalProperties": False}
