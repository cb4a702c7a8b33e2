"""A plugin index made by hand, a command that a distribution brings, and services that answer without an engine."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest
from pydantic import ConfigDict

from infer.cli.main import run
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import InferError, RequestError
from infer_api.options import Options
from infer_api.requests import SamplingParams
from infer_api.services import Event, Finished, Limits, ModelCard, Rendered, Services, TextDelta, Usage

WAVE_OPTIONS = {
    "type": "object",
    "properties": {
        "num_splits": {"type": "integer", "minimum": 1, "default": 4, "description": "Parts of a long row."}
    },
}


class ProbeOptions(Options):
    model_config = ConfigDict(use_attribute_docstrings=True)
    num_rounds: int = 2
    """How often."""
    loud: bool = False
    """Say more."""


class ProbeCommand:
    """Remembers what it was run with."""

    runs: list[tuple[Any, Mapping[str, Any], Any]]
    failure: InferError | BaseException | None = None

    def run(self, context: Any, arguments: Mapping[str, Any], options: Any) -> int:
        type(self).runs.append((context, arguments, options))
        if self.failure is not None:
            raise self.failure
        return 5


def record(kind: str, name: str, state: str = "compatible", reason: str = "", **data: Any) -> PluginRecord:
    return PluginRecord(kind, name, f"acme-{name}", "1.0", "acme", data, state, reason)  # type: ignore[arg-type]


def probe_record() -> PluginRecord:
    return record(
        "commands",
        "probe",
        summary="Probe a model.",
        implementation="acme_probe_command:ProbeCommand",
        supports={
            "arguments": [["model?", "Model to probe."]],
            "subcommands": [["fast", "Quickly."], ["slow", "With care."]],
            "takes_config": True,
        },
        options=ProbeOptions.model_json_schema(),
        options_class="acme_probe_command:ProbeOptions",
    )


@pytest.fixture
def index() -> PluginIndex:
    wave = {"devices": ["*"], "dtypes": ["float32"], "head_sizes": {"multiple_of": 8, "maximum": 0}}
    return PluginIndex(
        [
            record("attention", "wave", summary="Waves.", priority=10, supports=wave, options=WAVE_OPTIONS),
            record("attention", "moon", "failed", "it needs a moon", summary="Moonlight."),
            record("loaders", "tiny", summary="Tiny files.", supports={"suffixes": [".tiny"]}),
            probe_record(),
        ]
    )


@dataclass
class Result:
    status: int
    out: str
    err: str


@pytest.fixture
def infer(
    index: PluginIndex, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Result]:
    """Runs `infer WORDS` in this process, with the plugins of `index`."""
    probe = ModuleType("acme_probe_command")
    probe.ProbeCommand, probe.ProbeOptions = ProbeCommand, ProbeOptions  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_probe_command", probe)
    monkeypatch.setattr(ProbeCommand, "runs", [], raising=False)
    monkeypatch.setattr("infer.cli.main.discover", lambda: index)
    monkeypatch.setattr("infer.cli.context.set_up_logging", lambda *_: None)

    def call(*words: str) -> Result:
        status = run(words)
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return call


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
class FakeEngine:
    renderer: WordRenderer = field(default_factory=WordRenderer)
    outputs: ShoutingOutputs = field(default_factory=ShoutingOutputs)
    num_open: int = 0
    num_closed: int = 0

    def services(self) -> Services:
        card = ModelCard("tiny", (), 128, 100, 0, True, {"top_k": 7, "temperature": 0.5})
        limits = Limits(1, 1, 1, 1, 1, 1)
        return Services(None, self.renderer, self.outputs, (card,), None, limits, "0", "fp")  # type: ignore[arg-type]


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEngine]:
    """Stands in for `open_services`, so that commands run without a model."""
    fake = FakeEngine()

    @asynccontextmanager
    async def opened(config: Any, index: Any, *, inline: bool | None) -> AsyncIterator[Services]:
        fake.num_open += 1
        try:
            yield fake.services()
        finally:
            fake.num_closed += 1

    monkeypatch.setattr("infer.cli.context._opened", opened)
    yield fake
    assert fake.num_open == fake.num_closed
