"""Many requests at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from infer_bench.contenders import BatchContender
from infer_bench.results import Metric, Results
from infer_bench.workload import Workload

__all__ = ["METRICS", "measure_throughput"]

METRICS = (
    Metric("seconds", "s", is_better="lower"),
    Metric("requests_per_s", "requests/s", is_better="higher"),
    Metric("input_tokens_per_s", "input tok/s", is_better="higher"),
    Metric("output_tokens_per_s", "output tok/s", is_better="higher"),
)


def measure_throughput(
    contenders: Sequence[BatchContender],
    workload: Workload,
    *,
    warmup: int,
    repeat: int,
    clock: Callable[[], float] = time.perf_counter,
    say: Callable[[str], None],
) -> Results:
    """Let the contenders take turns: warm-up runs first, then `repeat` counted ones each."""
    results = Results(METRICS, [contender.name for contender in contenders])
    for run in range(-warmup, repeat):
        prompts = workload.prompts(run)
        for contender in contenders:
            started = clock()
            contender.generate(prompts, workload.output_len)
            figures = _figures(workload, clock() - started)
            if run >= 0:
                results.add(contender.name, figures)
            label = f"run {run + 1} of {repeat}" if run >= 0 else "warm-up"
            say(f"{label}: {contender.name} {figures['output_tokens_per_s']:.1f} output tok/s")
    return results


def _figures(workload: Workload, seconds: float) -> dict[str, float]:
    per_s = workload.num_prompts / seconds
    return {
        "seconds": seconds,
        "requests_per_s": per_s,
        "input_tokens_per_s": per_s * workload.input_len,
        "output_tokens_per_s": per_s * workload.output_len,
    }
