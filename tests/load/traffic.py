"""What the clients of a load test ask for, and their answers in a form that can be compared."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wire import Connection, Gone

__all__ = ["INVALID", "Answer", "Ask", "Failed", "ask_kinds", "read_answer", "words_of"]

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
_WORDS = (
    *("river", "stone", "paper", "cloud", "seven", "green", "engine", "window", "market", "quiet", "lamp", "bridge"),
    *("summer", "letter", "garden", "copper", "thread", "mirror", "harbour", "winter", "candle", "forest", "silver"),
)
_SAMPLING: tuple[dict[str, Any], ...] = (
    {"temperature": 0},
    {"temperature": 0},
    {"temperature": 0.8},
    {"temperature": 1.0, "top_p": 0.9},
    {"temperature": 0.9, "top_k": 20, "min_p": 0.02},
    {"temperature": 0, "presence_penalty": 0.7, "frequency_penalty": 0.4},
    {"temperature": 0.7, "repetition_penalty": 1.3},
    {"temperature": 1.0, "logit_bias": {"65": 3, "70": -100}},
)

INVALID: tuple[tuple[str, Any], ...] = (
    (COMPLETIONS, {"prompt": "a", "n": 5_000_000}),
    (COMPLETIONS, {"prompt": "a", "temperature": "hot"}),
    (COMPLETIONS, {"prompt": [1, 10**9]}),
    (COMPLETIONS, {"prompt": "a", "stop_token_ids": [-1]}),
    (COMPLETIONS, {"prompt": "a", "no_such_field": 1}),
    (COMPLETIONS, {"prompt": "many words " * 100_000}),
    (COMPLETIONS, {"prompt": "a", "logit_bias": {"cat": 1}}),
    (CHAT, {"messages": []}),
    (CHAT, {"messages": [{"role": "nobody", "content": "a"}], "stream": True, "top_p": -1}),
    (CHAT, {"messages": [{"role": "user", "content": "a"}], "model": "no-such-model"}),
    (CHAT, {"messages": [{"role": "user", "content": "a"}], "stream": True, "n": 0}),
    (CHAT, [1, 2]),
)
"""Requests that must be refused with a 4xx, streamed or not."""


@dataclass(frozen=True)
class Ask:
    """One kind of request. The same kind must always get the same answer, streamed or whole."""

    name: str
    path: str
    body: dict[str, Any]

    @property
    def num_choices(self) -> int:
        prompt = self.body.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) and isinstance(prompt[0], str) else 1
        return prompts * int(self.body.get("n", 1))


@dataclass(frozen=True, order=True)
class Answer:
    """Texts and finish reasons by choice, and (prompt, completion) tokens; usage is None in streams without it."""

    choices: tuple[tuple[int, str, str], ...]
    usage: tuple[int, int] | None = None


class Failed(Exception):
    """The answer was no answer: an error status, an error event, or a shape that no reply has."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text[:300]}")
        self.status = status


def words_of(rng: random.Random, count: int) -> str:
    """Random words, each of them one or two tokens of a real vocabulary and five or so of the tiny one."""
    return " ".join(rng.choices(_WORDS, k=count))


def ask_kinds(count: int, seed: int, prefix_words: Sequence[int] = (4, 20, 40)) -> list[Ask]:
    """`count` kinds of requests, of which groups begin with the same words. Every one of them names its seed."""
    rng = random.Random(seed)
    prefixes = [words_of(rng, length) for length in prefix_words]
    kinds = []
    for index in range(count):
        text = f"{rng.choice(prefixes)} {words_of(rng, rng.randint(1, 12))}"
        body: dict[str, Any] = {
            **rng.choice(_SAMPLING),
            "seed": rng.randrange(2**31),
            "max_tokens": rng.randint(4, 48),
            "ignore_eos": rng.random() < 0.5,
        }
        if rng.random() < 0.3:
            body["n"] = rng.randint(2, 3)
        if rng.random() < 0.2:
            body["stop"] = [rng.choice("aeio") + rng.choice("nrst"), "."]
        if rng.random() < 0.5:
            kinds.append(Ask(f"chat-{index}", CHAT, {**body, "messages": [{"role": "user", "content": text}]}))
        else:
            prompt: Any = text if rng.random() < 0.8 else [text, words_of(rng, 3)]
            kinds.append(Ask(f"completion-{index}", COMPLETIONS, {**body, "prompt": prompt}))
    return kinds


async def read_answer(connection: Connection, *, stream: bool) -> Answer:
    """The answer to a request that was sent on `connection`. Raises Failed, and Gone."""
    head = await connection.head()
    if head.status != 200 or not stream:
        data = b"".join([piece async for piece in connection.pieces(head)])
        if head.status != 200:
            raise Failed(head.status, data.decode("utf-8", "replace"))
        return _whole(json.loads(data))
    texts: dict[int, list[str]] = {}
    reasons: dict[int, str] = {}
    usage = None
    async for event in connection.events(head):
        if event == "[DONE]":
            return Answer(
                tuple((index, "".join(texts[index]), reasons.get(index, "")) for index in sorted(texts)), usage
            )
        chunk = json.loads(event)
        if "error" in chunk:
            raise Failed(head.status, event)
        usage = _usage(chunk) or usage
        for choice in chunk["choices"]:
            text = choice["text"] if "text" in choice else choice["delta"].get("content")
            texts.setdefault(choice["index"], []).append(text or "")
            if choice["finish_reason"] is not None:
                if choice["index"] in reasons:
                    raise Failed(head.status, f"choice {choice['index']} ends twice")
                reasons[choice["index"]] = choice["finish_reason"]
    raise Gone("the stream ended without [DONE]")


def _whole(reply: dict[str, Any]) -> Answer:
    choices = []
    for choice in reply["choices"]:
        text = choice["text"] if "text" in choice else choice["message"]["content"]
        choices.append((choice["index"], text or "", choice["finish_reason"]))
    return Answer(tuple(choices), _usage(reply))


def _usage(reply: dict[str, Any]) -> tuple[int, int] | None:
    usage = reply.get("usage")
    return (usage["prompt_tokens"], usage["completion_tokens"]) if usage else None
