"""One request at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from infer_bench.contenders import StreamContender
from infer_bench.results import Metric, Results, percentile
from infer_bench.workload import Workload

__all__ = ["METRICS", "measure_latency"]

METRICS = (
    Metric("ttft_ms", "time to first token, ms", is_better="lower"),
    Metric("input_tokens_per_s", "input tok/s to the first token", is_better="higher"),
    Metric("tpot_ms", "time per further token, ms", is_better="lower"),
    Metric("itl_p50_ms", "gap between tokens p50, ms", is_better="lower"),
    Metric("itl_p90_ms", "gap between tokens p90, ms", is_better="lower"),
    Metric("itl_p99_ms", "gap between tokens p99, ms", is_better="lower"),
    Metric("decode_tokens_per_s", "decode tok/s", is_better="higher"),
)


def measure_latency(
    contenders: Sequence[StreamContender],
    workload: Workload,
    *,
    warmup: int,
    repeat: int,
    say: Callable[[str], None],
) -> Results:
    """Let the contenders take turns at each prompt. Each prompt of each counted run is one sample."""
    results = Results(METRICS, [contender.name for contender in contenders])
    for run in range(-warmup, repeat):
        for prompt in workload.prompts(run):
            for contender in contenders:
                figures = _figures(contender.token_times(prompt, workload.output_len), workload.input_len)
                if run >= 0:
                    results.add(contender.name, figures)
        say(f"run {run + 1} of {repeat} is done" if run >= 0 else "warm-up is done")
    return results


def _figures(token_times: Sequence[float], input_len: int) -> dict[str, float]:
    """Figures of one request; those of decoding are left out when there was one token."""
    first = token_times[0]
    figures = {"ttft_ms": first * 1000, "input_tokens_per_s": input_len / first}
    if len(token_times) > 1:
        gaps = [(after - before) * 1000 for before, after in pairwise(token_times)]
        per_token_s = (token_times[-1] - first) / len(gaps)
        figures |= {"tpot_ms": per_token_s * 1000, "decode_tokens_per_s": 1 / per_token_s}
        figures |= {f"itl_p{share}_ms": percentile(gaps, share) for share in (50, 90, 99)}
    return figures
