"""A command context whose engine answers with scripted tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from infer_api.requests import SamplingParams
from infer_api.services import Finished, Rendered, TextDelta, Usage

VOCAB_SIZE = 50


@dataclass
class FakeEngine:
    """Both ways into infer: `generate` as an LLM, `check` and `stream` as an output pipeline."""

    lost_tokens: int = 0
    calls: list[tuple[list[list[int]], SamplingParams]] = field(default_factory=list)
    num_closed: int = 0

    @property
    def tokenizer(self) -> Any:
        return SimpleNamespace(vocab_size=VOCAB_SIZE)

    def generate(self, prompts: Sequence[Sequence[int]], sampling: SamplingParams) -> list[Any]:
        self.calls.append(([list(prompt) for prompt in prompts], sampling))
        ids = tuple(range((sampling.max_tokens or 0) - self.lost_tokens))
        return [SimpleNamespace(outputs=(SimpleNamespace(token_ids=ids),)) for _ in prompts]

    def close(self) -> None:
        self.num_closed += 1

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        self.calls.append(([list(prompt.prompt_ids) for prompt in prompts], sampling))
        return sampling

    async def stream(self, prompts: Any, sampling: SamplingParams, *, request_id: str) -> AsyncIterator[Any]:
        left = (sampling.max_tokens or 0) - self.lost_tokens
        while left > 0:
            # Two tokens make a character: they come together.
            yield TextDelta(0, "é", token_ids=(1, 2)[:left])
            left -= 2
        yield TextDelta(0, "", token_ids=())
        yield Finished(0, "length")
        yield Usage(1, 1)


@dataclass
class FakeContext:
    engine: FakeEngine = field(default_factory=FakeEngine)
    said: list[str] = field(default_factory=list)
    model: str = "tiny"

    @property
    def config(self) -> Any:
        return SimpleNamespace(
            model=SimpleNamespace(name=self.model, dtype="float32"),
            platform=SimpleNamespace(name="auto"),
            plugin_options={"platforms": {"cpu": {"threads": 2}}},
        )

    def open_llm(self) -> FakeEngine:
        return self.engine

    @asynccontextmanager
    async def open_services(self) -> AsyncIterator[Any]:
        renderer = SimpleNamespace(text=lambda ids: Rendered(tuple(ids)))
        card = SimpleNamespace(vocab_size=VOCAB_SIZE)
        yield SimpleNamespace(renderer=renderer, outputs=self.engine, models=(card,))
        self.engine.close()

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def context() -> FakeContext:
    return FakeContext()


class TurnKeeper:
    """A contender that writes down its turns, and whose tokens come after the given seconds."""

    def __init__(self, name: str, turns: list[tuple[str, Any]], times: Sequence[float] = ()) -> None:
        self.name = name
        self._turns = turns
        self._times = list(times)

    def generate(self, prompts: Any, output_len: int) -> None:
        self._turns.append((self.name, prompts))

    def token_times(self, prompt: Any, output_len: int) -> list[float]:
        self._turns.append((self.name, prompt))
        return self._times

    def close(self) -> None:
        self._turns.append((self.name, "closed"))


@pytest.fixture
def turn_keeper() -> Callable[..., TurnKeeper]:
    return TurnKeeper
