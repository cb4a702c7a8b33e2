from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infer_bench.latency import METRICS, measure_latency
from infer_bench.workload import Workload

WORKLOAD = Workload(num_prompts=2, input_len=100, output_len=4, seed=0, vocab_size=11)


def test_contenders_take_turns_at_each_prompt(turn_keeper: Callable[..., Any]) -> None:
    turns: list[tuple[str, Any]] = []
    contenders = [turn_keeper("infer", turns, [1.0]), turn_keeper("other", turns, [1.0])]
    measure_latency(contenders, WORKLOAD, warmup=0, repeat=1, say=[].append)
    first, second = WORKLOAD.prompts(0)
    assert turns == [("infer", first), ("other", first), ("infer", second), ("other", second)]


def test_figures_follow_from_the_times_of_tokens(turn_keeper: Callable[..., Any]) -> None:
    contender = turn_keeper("infer", [], [0.5, 0.6, 0.7, 1.0])
    results = measure_latency([contender], WORKLOAD, warmup=1, repeat=2, say=[].append)
    medians = {metric.key: results.find_median("infer", metric) for metric in METRICS}
    assert medians == {
        "ttft_ms": pytest.approx(500),
        "input_tokens_per_s": pytest.approx(200),
        "tpot_ms": pytest.approx(500 / 3),
        "itl_p50_ms": pytest.approx(100),
        "itl_p90_ms": pytest.approx(260),
        "itl_p99_ms": pytest.approx(296),
        "decode_tokens_per_s": pytest.approx(6),
    }
    assert len(results.to_dict()["contenders"]["infer"]["runs"]) == 4


def test_one_token_has_no_figures_of_decoding(turn_keeper: Callable[..., Any]) -> None:
    results = measure_latency([turn_keeper("infer", [], [0.5])], WORKLOAD, warmup=0, repeat=1, say=[].append)
    missing = [metric.key for metric in METRICS if results.find_median("infer", metric) is None]
    assert missing == ["tpot_ms", "itl_p50_ms", "itl_p90_ms", "itl_p99_ms", "decode_tokens_per_s"]
