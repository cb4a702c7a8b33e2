from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError
from infer_bench.report import check_writable, facts, table, write_json
from infer_bench.results import Metric, Results
from infer_bench.workload import Workload


@pytest.fixture
def results() -> Results:
    metrics = [Metric("speed", "tok/s", is_better="higher"), Metric("gap", "gap, ms", is_better="lower")]
    results = Results(metrics, ["infer", "transformers"])
    results.add("infer", {"speed": 1234.5})
    results.add("transformers", {"speed": 617.25})
    return results


def test_the_table_has_a_column_for_each_contender_and_the_ratio(results: Results) -> None:
    assert table("title", results).splitlines() == [
        "title",
        "            infer  transformers  infer vs transformers",
        "tok/s    1,234.50        617.25                  2.00x",
        "gap, ms         -             -                      -",
    ]


def test_the_file_has_settings_runs_medians_and_ratios(results: Results, context: Any, tmp_path: Path) -> None:
    workload = Workload(num_prompts=3, input_len=5, output_len=2, seed=7, vocab_size=11)
    path = tmp_path / "out.json"
    about = facts("throughput", context.config, workload, warmup=1, repeat=2)
    write_json(str(path), about | results.to_dict())
    data = json.loads(path.read_text())
    assert (data["bench"], data["model"], data["dtype"]) == ("throughput", "tiny", "float32")
    assert (data["platform"], data["platform_options"]) == ("auto", {"cpu": {"threads": 2}})
    assert data["workload"] == {"num_prompts": 3, "input_len": 5, "output_len": 2, "seed": 7}
    assert data["contenders"]["infer"] == {"median": {"speed": 1234.5, "gap": None}, "runs": [{"speed": 1234.5}]}
    assert data["ratios"] == {"transformers": {"speed": 2.0, "gap": None}}


def test_a_file_that_cannot_be_written_is_known_before_measuring(tmp_path: Path) -> None:
    check_writable(None)
    check_writable(str(tmp_path / "out.json"))
    with pytest.raises(ConfigError, match="--json"):
        check_writable(str(tmp_path / "missing" / "out.json"))


def test_a_file_is_replaced_at_once_and_a_failure_is_told(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    write_json(str(path), {"a": 1})
    write_json(str(path), {"a": 2})
    assert json.loads(path.read_text()) == {"a": 2}
    assert [each.name for each in tmp_path.iterdir()] == ["out.json"]
    with pytest.raises(ConfigError, match="cannot be written"):
        write_json(str(tmp_path / "missing" / "out.json"), {})
