from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from infer_bench.command import BenchCommand
from infer_bench.options import BenchOptions
from infer_bench.startup import measure_startup, peak_rss_bytes


def test_each_new_process_is_timed_until_its_first_token(
    context: Any, fake_infer: tuple[str, ...], tmp_path: Path
) -> None:
    results = measure_startup(context.config, fake_infer, BenchOptions(warmup=1), 2, context.say)
    runs = results.to_dict()["contenders"]["infer"]["runs"]
    assert len(runs) == 2
    assert len((tmp_path / "argv.txt").read_text().splitlines()) == 3
    for run in runs:
        assert 0.1 < run["port_s"] <= run["health_s"] <= run["ready_s"] < run["first_token_s"]
        assert run["ready_s"] - run["port_s"] == pytest.approx(0.2, abs=0.1)
        assert 3 < run["peak_rss_mib"] < 200


def test_it_prints_the_range_and_writes_every_start(
    context: Any,
    fake_infer: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("infer_bench.startup.infer_program", lambda: fake_infer)
    path = tmp_path / "out.json"
    options = BenchOptions(warmup=0, repeat=1, json_file=str(path))
    assert BenchCommand().run(context, {"subcommand": "startup"}, options) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "startup of tiny: seconds from exec, median of 1 new processes"
    assert printed[1].split() == ["median", "lowest", "highest"]
    data = json.loads(path.read_text())
    assert (data["bench"], data["model"], data["settings"]["repeat"]) == ("startup", "tiny", 1)


def test_memory_of_children_counts() -> None:
    own = peak_rss_bytes(os.getpid())
    assert own is not None
    assert own > 10 * 2**20
    assert peak_rss_bytes(2**30) is None
