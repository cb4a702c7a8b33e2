"""A plugin index made by hand, and a command that a distribution brings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
from pydantic import ConfigDict

from infer.cli.main import run
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import InferError
from infer_api.options import Options

WAVE_OPTIONS = {
    "type": "object",
    "properties": {
        "num_splits": {"type": "integer", "minimum": 1, "default": 4, "description": "Parts of a long row."},
        "token": {"type": "string", "default": "", "description": "For it.", "flags": ["--wave-token"], "secret": True},
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
            record("model_sources", "shop", supports={"prefix": "shop:", "pattern": "[a-z]+", "usage": "shop:NAME"}),
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
