"""What clients get: streamed and whole, chat and completions, several choices and prompts."""

from __future__ import annotations

from typing import Any

import openai

GREEN = "Seven green bottles"
CHAT: list[Any] = [{"role": "user", "content": "Name a colour."}]


def joined(stream: Any) -> dict[int, dict[str, Any]]:
    """Text, finish reasons and number of chunks by choice of a streamed completion."""
    choices: dict[int, dict[str, Any]] = {}
    for chunk in stream:
        for choice in chunk.choices:
            seen = choices.setdefault(choice.index, {"text": "", "reasons": []})
            seen["text"] += choice.text if hasattr(choice, "text") else choice.delta.content or ""
            if choice.finish_reason is not None:
                seen["reasons"].append(choice.finish_reason)
    return choices


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_a_streamed_completion_is_the_whole_one(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "prompt": GREEN, "max_tokens": 40, "temperature": 0}
    whole = client.completions.create(**asked)
    streamed = joined(client.completions.create(**asked, stream=True))
    assert streamed == {0: {"text": whole.choices[0].text, "reasons": [whole.choices[0].finish_reason]}}
    assert len(whole.choices[0].text) > 20


def test_a_streamed_chat_is_the_whole_one(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "messages": CHAT, "max_tokens": 40, "temperature": 0}
    whole = client.chat.completions.create(**asked)
    streamed = joined(client.chat.completions.create(**asked, stream=True))
    assert streamed == {0: {"text": whole.choices[0].message.content, "reasons": [whole.choices[0].finish_reason]}}
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].message.content


def test_sampled_choices_differ_and_stream_alike(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "prompt": GREEN, "max_tokens": 24, "temperature": 1.0, "seed": 7, "n": 2}
    whole = client.completions.create(**asked)
    streamed = joined(client.completions.create(**asked, stream=True))
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert whole.choices[0].text != whole.choices[1].text
    assert {index: choice["text"] for index, choice in streamed.items()} == {
        choice.index: choice.text for choice in whole.choices
    }


def test_a_list_of_prompts_is_answered_in_order(client: openai.OpenAI) -> None:
    """B64: index = prompt · n + choice, whatever finishes first."""
    prompts = ["A long story of " + "many words and " * 12, "B", "C"]
    asked: dict[str, Any] = {
        "model": "tiny",
        "prompt": prompts,
        "n": 2,
        "echo": True,
        "max_tokens": 8,
        "temperature": 0.8,
        "seed": 3,
    }
    whole = client.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == list(range(6))
    for choice in whole.choices:
        assert choice.text.startswith(prompts[choice.index // 2])
    streamed = joined(client.completions.create(**asked, stream=True))
    assert {index: choice["text"] for index, choice in streamed.items()} == {
        choice.index: choice.text for choice in whole.choices
    }


def test_each_prompt_of_a_list_is_answered_as_alone(client: openai.OpenAI) -> None:
    prompts = [GREEN, "a", "The end of the line"]
    asked: dict[str, Any] = {"model": "tiny", "max_tokens": 20, "temperature": 0}
    together = client.completions.create(prompt=prompts, **asked)
    alone = [client.completions.create(prompt=prompt, **asked).choices[0].text for prompt in prompts]
    assert [choice.text for choice in together.choices] == alone


def test_token_ids_may_be_sent_instead_of_text(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "max_tokens": 8, "temperature": 0}
    tokenized = client.post("/../tokenize", body={"prompt": GREEN}, cast_to=object)
    assert isinstance(tokenized, dict)
    by_ids = client.completions.create(prompt=tokenized["tokens"], **asked)
    assert by_ids.choices[0].text == client.completions.create(prompt=GREEN, **asked).choices[0].text


def test_usage_counts_prompts_once_and_all_choices(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "max_tokens": 5, "temperature": 1.0, "extra_body": {"ignore_eos": True}}
    usage = client.completions.create(prompt=["abc", "xyzzy"], n=2, **asked).usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (8, 20, 28)


def test_usage_comes_last_in_a_stream(client: openai.OpenAI) -> None:
    chunks = list(
        client.completions.create(
            model="tiny",
            prompt=["abc", "xyzzy"],
            n=2,
            max_tokens=5,
            stream=True,
            stream_options={"include_usage": True},
            extra_body={"ignore_eos": True},
        )
    )
    assert [chunk.usage for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    last = chunks[-1]
    assert last.choices == []
    assert last.usage is not None
    assert (last.usage.prompt_tokens, last.usage.completion_tokens) == (8, 20)


def test_a_stop_string_cuts_the_text_before_it(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "prompt": GREEN, "max_tokens": 40, "temperature": 0}
    text = client.completions.create(**asked).choices[0].text
    stop = text[12:15]
    expected = text[: text.index(stop)]
    whole = client.completions.create(**asked, stop=[stop]).choices[0]
    assert (whole.text, whole.finish_reason) == (expected, "stop")
    streamed = joined(client.completions.create(**asked, stop=[stop], stream=True))
    assert streamed == {0: {"text": expected, "reasons": ["stop"]}}


def test_a_request_may_reach_the_longest_length_and_no_further(client: openai.OpenAI) -> None:
    asked: dict[str, Any] = {"model": "tiny", "temperature": 0, "extra_body": {"ignore_eos": True}}
    done = client.completions.create(prompt=[1] * 500, max_tokens=12, **asked)
    assert done.usage is not None
    assert (done.choices[0].finish_reason, done.usage.total_tokens) == ("length", 512)
