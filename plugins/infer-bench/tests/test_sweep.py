from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError
from infer_bench.command import BenchCommand
from infer_bench.options import BenchOptions


def sweep(context: Any, folder: Path, **fields: Any) -> int:
    common = {"num_prompts": 2, "input_len": 5, "output_len": 2, "plots": False, "num_warmups": 0}
    options = BenchOptions(**{**common, "output_dir": str(folder), **fields})
    return BenchCommand().run(context, {"subcommand": "sweep", "model": None}, options)


def test_each_point_has_a_file_and_a_row(
    serve_stub: Callable[..., Any], events: Any, context: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "new" / "results"
    stub = serve_stub(lambda body: events.answer_of(body, gap_s=0.005))
    assert sweep(context, folder, base_url=stub.url, concurrencies=(1, 2)) == 0
    assert {path.name for path in folder.iterdir()} == {
        "concurrency=1.json",
        "concurrency=2.json",
        "summary.csv",
        "summary.json",
    }
    point = json.loads((folder / "concurrency=1.json").read_text())
    assert (point["bench"], point["settings"]["max_concurrency"]) == ("serve", 1)
    assert point["contenders"]["server"]["median"]["max_concurrent_requests"] == 1
    rows = list(csv.DictReader((folder / "summary.csv").read_text().splitlines()))
    assert [(row["max_concurrency"], row["completed"]) for row in rows] == [("1", "2"), ("2", "2")]
    assert all(float(row["p99_itl_ms"]) > 0 for row in rows)
    assert [row["max_concurrency"] for row in json.loads((folder / "summary.json").read_text())["points"]] == [1, 2]
    assert "2 at once" in capsys.readouterr().out


def test_points_that_are_there_are_not_measured_again(
    serve_stub: Callable[..., Any], context: Any, tmp_path: Path
) -> None:
    stub = serve_stub()
    sweep(context, tmp_path, base_url=stub.url, request_rates=("200", "inf"))
    assert len(stub.bodies) == 4
    sweep(context, tmp_path, base_url=stub.url, request_rates=("100", "200", "inf"))
    assert len(stub.bodies) == 6
    assert "2 of 3 points are there already (--overwrite measures again)" in context.said
    sweep(context, tmp_path, base_url=stub.url, request_rates=("200", "inf"), overwrite=True)
    assert len(stub.bodies) == 10


def test_points_of_other_settings_are_not_mixed_in(
    serve_stub: Callable[..., Any], context: Any, tmp_path: Path
) -> None:
    stub = serve_stub()
    sweep(context, tmp_path, base_url=stub.url, concurrencies=(1,))
    with pytest.raises(ConfigError, match="another input_len"):
        sweep(context, tmp_path, base_url=stub.url, concurrencies=(1,), input_len=6)
    (tmp_path / "concurrency=1.json").write_text("{")
    with pytest.raises(ConfigError, match="remove it"):
        sweep(context, tmp_path, base_url=stub.url, concurrencies=(1,))


def test_a_server_is_started_for_each_value_of_a_flag_that_misses_points(
    context: Any, fake_infer: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer_bench.serve.infer_program", lambda: fake_infer)
    started, folder = tmp_path / "argv.txt", tmp_path / "results"
    sweep(context, folder, concurrencies=(1, 2), vary=("max-num-seqs=8",))
    sweep(context, folder, concurrencies=(1, 2), vary=("max-num-seqs=8", "64"))
    assert [line.split()[-3] for line in started.read_text().splitlines()] == ["--max-num-seqs=8", "--max-num-seqs=64"]
    assert (folder / "max-num-seqs=64.concurrency=2.json").exists()
    context.model = "another"
    with pytest.raises(ConfigError, match="another server_config"):
        sweep(context, folder, concurrencies=(1, 2), vary=("max-num-seqs=8",))


def test_flags_of_a_foreign_server_cannot_be_varied(context: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--vary"):
        sweep(context, tmp_path, base_url="http://127.0.0.1:1", concurrencies=(1,), vary=("a=1",))
