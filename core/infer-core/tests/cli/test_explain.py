from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from infer.plugins.discovery import PluginIndex
from infer.plugins.select import Selection
from infer_api.errors import PluginError
from infer_api.specs import Reason


@dataclass
class FakeDecision:
    option: str
    value: str
    because: str


@pytest.fixture
def planned(index: PluginIndex, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Puts a plan in the place of the engine's; what it was asked for is returned."""
    wave = next(record for record in index.records("attention") if record.name == "wave")
    moon = next(record for record in index.records("attention") if record.name == "moon")
    asked: list[Any] = []

    def plan_engine(config: Any, index: PluginIndex) -> Any:
        asked.append(config)
        if config.model.name == "odd":
            raise PluginError("no installed models plugin fits 'Odd'")
        return SimpleNamespace(
            model_path=Path("/m/x.tiny"),
            facts=SimpleNamespace(architecture="TinyForCausalLM"),
            selections={"attention": Selection(wave, "the only one that fits", ((moon, Reason("it needs a moon")),))},
            decisions=(FakeDecision("model.dtype", "float32", "the fastest here"),),
            plugin_set=SimpleNamespace(digest="0123456789abcdef"),
        )

    module = ModuleType("infer.engine.assembly")
    module.plan_engine = plan_engine  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "infer.engine.assembly", module)
    return asked


def test_winners_losers_and_decisions_are_printed_with_reasons(infer, planned) -> None:
    shown = infer("explain", "x.tiny")
    assert planned[0].model.name == "x.tiny"
    lines = shown.out.splitlines()
    assert lines[0] == "model /m/x.tiny (TinyForCausalLM)"
    assert "  + wave (acme-wave), taken: the only one that fits" in lines
    assert "  - moon (acme-moon), not taken: it needs a moon" in lines
    assert "  model.dtype = float32: the fastest here" in lines
    assert lines[-1] == "plugin set 0123456789abcdef"


def test_json_holds_the_same(infer, planned) -> None:
    found = json.loads(infer("explain", "x.tiny", "--json").out)
    assert [row["name"] for row in found["plugins"]["attention"]] == ["wave", "moon"]
    assert found["decisions"] == [{"option": "model.dtype", "value": "float32", "because": "the fastest here"}]
    assert found["digest"] == "0123456789abcdef"


def test_when_nothing_fits_the_error_is_the_answer(infer, planned) -> None:
    shown = infer("explain", "odd")
    assert shown.status == 1
    assert shown.err == "infer: error: no installed models plugin fits 'Odd'\n"
