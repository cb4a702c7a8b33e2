from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError
from infer_bench.command import BenchCommand
from infer_bench.options import BenchOptions


@pytest.mark.parametrize(
    ("kind", "num_calls", "label"), [("throughput", 3, "output tok/s"), ("latency", 12, "time to first token")]
)
def test_it_measures_prints_and_writes(
    context: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str, num_calls: int, label: str
) -> None:
    path = tmp_path / "out.json"
    options = BenchOptions(input_len=6, output_len=4, repeat=2, json_file=str(path))
    assert BenchCommand().run(context, {"subcommand": kind, "model": None}, options) == 0
    assert len(context.engine.calls) == num_calls
    assert all(len(prompt) == 6 for prompts, _ in context.engine.calls for prompt in prompts)
    printed = capsys.readouterr().out
    assert printed.startswith(f"{kind} of tiny: ")
    assert label in printed
    assert json.loads(path.read_text())["bench"] == kind
    assert context.said[-1] == f"written to {path}"
    assert context.engine.num_closed == 1


def test_wrong_settings_are_known_before_the_model_loads(context: Any, tmp_path: Path) -> None:
    command, arguments = BenchCommand(), {"subcommand": "throughput"}
    for options in (BenchOptions(against="transformers"), BenchOptions(json_file=str(tmp_path / "no" / "out.json"))):
        with pytest.raises(ConfigError):
            command.run(context, arguments, options)
    assert (context.engine.calls, context.engine.num_closed) == ([], 0)


def test_the_engine_is_closed_when_measuring_fails(context: Any) -> None:
    context.engine.lost_tokens = 1
    for kind in ("throughput", "latency"):
        with pytest.raises(Exception, match="instead of"):
            BenchCommand().run(context, {"subcommand": kind}, BenchOptions())
    assert context.engine.num_closed == 2
