from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from infer_bench.throughput import METRICS, measure_throughput
from infer_bench.workload import Workload

WORKLOAD = Workload(num_prompts=8, input_len=100, output_len=50, seed=0, vocab_size=11)


def test_contenders_take_turns_on_the_same_prompts(turn_keeper: Callable[..., Any]) -> None:
    turns: list[tuple[str, Any]] = []
    contenders = [turn_keeper("infer", turns), turn_keeper("other", turns)]
    measure_throughput(contenders, WORKLOAD, warmup=1, repeat=2, say=[].append)
    assert [name for name, _ in turns] == ["infer", "other"] * 3
    prompts = [prompts for _, prompts in turns]
    assert prompts == [WORKLOAD.prompts(run) for run in (-1, -1, 0, 0, 1, 1)]


def test_figures_follow_from_the_seconds_and_warm_up_does_not_count(turn_keeper: Callable[..., Any]) -> None:
    ticks = iter([0.0, 100.0, 100.0, 102.0, 200.0, 204.0, 300.0, 308.0])
    results = measure_throughput(
        [turn_keeper("infer", [])], WORKLOAD, warmup=1, repeat=3, clock=lambda: next(ticks), say=[].append
    )
    medians = {metric.key: results.find_median("infer", metric) for metric in METRICS}
    assert medians == {
        "seconds": pytest.approx(4.0),
        "requests_per_s": pytest.approx(2.0),
        "input_tokens_per_s": pytest.approx(200.0),
        "output_tokens_per_s": pytest.approx(100.0),
    }


def test_each_run_is_told(turn_keeper: Callable[..., Any]) -> None:
    said: list[str] = []
    ticks = count(1)
    measure_throughput(
        [turn_keeper("infer", [])], WORKLOAD, warmup=1, repeat=1, clock=lambda: next(ticks), say=said.append
    )
    assert said == ["warm-up: infer 400.0 output tok/s", "run 1 of 1: infer 400.0 output tok/s"]
