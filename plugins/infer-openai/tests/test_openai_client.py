"""The official client against a real socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from infer_api.errors import EngineDeadError

MESSAGES = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture
def official(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=10) as client:
        yield client


def test_models_are_listed_and_found(official: openai.OpenAI) -> None:
    assert [model.id for model in official.models.list()] == ["tiny", "org/tiny-chat"]
    assert official.models.retrieve("tiny").id == "tiny"


def test_a_chat_is_answered(official: openai.OpenAI) -> None:
    reply = official.chat.completions.create(model="tiny", messages=MESSAGES, logprobs=True, top_logprobs=2)
    assert reply.choices[0].message.content == "Paris 0"
    assert reply.choices[0].finish_reason == "stop"
    assert reply.choices[0].logprobs.content[0].top_logprobs[0].logprob == -0.25
    assert reply.usage.prompt_tokens_details.cached_tokens == 2


def test_a_chat_is_streamed(official: openai.OpenAI) -> None:
    stream = official.chat.completions.create(
        model="tiny", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "Paris 0"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == 7


def test_completions_are_answered_and_streamed(official: openai.OpenAI) -> None:
    whole = official.completions.create(model="tiny", prompt=["a", "b"], n=2, logprobs=1)
    assert [choice.text for choice in whole.choices] == [f"Paris {i}" for i in range(4)]
    assert whole.choices[0].logprobs.text_offset == [0, 3, 5]
    chunks = official.completions.create(model="tiny", prompt="a", stream=True)
    assert "".join(chunk.choices[0].text for chunk in chunks) == "Paris 0"


def test_errors_have_the_clients_own_types(official: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as missing:
        official.chat.completions.create(model="other", messages=MESSAGES)
    assert missing.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        official.chat.completions.create(model="tiny", messages=MESSAGES, n=0, stream=True)
    assert refused.value.param == "n"


def test_an_error_within_a_stream_is_raised(official: openai.OpenAI, outputs: Any) -> None:
    outputs.fails_at, outputs.failure = 2, EngineDeadError("the worker was killed")
    stream = official.chat.completions.create(model="tiny", messages=MESSAGES, stream=True)
    with pytest.raises(openai.APIError, match="the worker was killed"):
        list(stream)
