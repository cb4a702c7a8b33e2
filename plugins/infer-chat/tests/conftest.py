"""A command's context whose services answer without an engine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Event, Finished, Limits, ModelCard, Rendered, Services, TextDelta, Usage


class WordRenderer:
    """One token a word; remembers the messages that it was given."""

    def __init__(self) -> None:
        self.seen: list[list[Mapping[str, Any]]] = []

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Any = (), options: Any = None) -> Rendered:
        self.seen.append([dict(message) for message in messages])
        return self.text(messages[-1]["content"])

    def text(self, prompt: Any, *, special: bool = True, param: str = "prompt") -> Rendered:
        if prompt == "bad":
            raise RequestError("the prompt is bad")
        return Rendered(tuple(range(len(prompt.split()))), prompt)

    def detokenize(self, ids: Sequence[int]) -> str:
        return ""

    def token_text(self, token_id: int) -> str:
        return ""


class ShoutingOutputs:
    """Answers with the prompt in capitals, a word at a time. `sampled` holds what each call asked for."""

    def __init__(self) -> None:
        self.sampled: list[SamplingParams] = []
        self.interrupt = False

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        self.sampled.append(sampling)
        return sampling

    async def stream(
        self, prompts: Sequence[Rendered], sampling: SamplingParams, *, request_id: str
    ) -> AsyncIterator[Event]:
        words = (prompts[0].text or "").upper().split()
        for number, word in enumerate(words):
            yield TextDelta(0, word if number == 0 else f" {word}")
            if self.interrupt:
                raise KeyboardInterrupt
        yield Finished(0, "stop")
        yield Usage(len(prompts[0].prompt_ids), len(words))

    async def collect(self, events: AsyncIterator[Event]) -> Any:
        raise NotImplementedError


@dataclass
class FakeContext:
    """What a command gets, as far as these two ask for it."""

    renderer: WordRenderer = field(default_factory=WordRenderer)
    outputs: ShoutingOutputs = field(default_factory=ShoutingOutputs)
    num_open: int = 0
    num_closed: int = 0

    @asynccontextmanager
    async def open_services(self) -> AsyncIterator[Services]:
        self.num_open += 1
        try:
            yield self.services()
        finally:
            self.num_closed += 1

    def services(self) -> Services:
        card = ModelCard("tiny", (), 128, 100, 0, True, {"top_k": 7, "temperature": 0.5})
        limits = Limits(*[1] * 9, None, 1)
        return Services(None, self.renderer, self.outputs, (card,), None, limits, "0", "fp")  # type: ignore[arg-type]


@pytest.fixture
def context() -> Iterator[FakeContext]:
    fake = FakeContext()
    yield fake
    assert fake.num_open == fake.num_closed, "services are closed, however the command ends"
