"""Records of one run → its figures. Keys are those of the serving benchmarks that people know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean, median, pstdev
from typing import Any

from infer_bench.drive import Load
from infer_bench.goodput import num_good
from infer_bench.records import RequestRecord
from infer_bench.results import Metric, percentile

__all__ = ["TIMES", "details", "load_metrics", "summarize"]

TIMES = {
    "ttft": "time to first token",
    "tpot": "time per further token",
    "itl": "gap between pieces",
    "e2el": "time to the end",
}


def load_metrics(percentiles: Sequence[float], *, with_goodput: bool) -> tuple[Metric, ...]:
    """Every figure that `summarize` gives, in the order of tables."""
    good = (
        Metric("request_goodput", "good requests/s", is_better="higher"),
        Metric("goodput_share", "share of good requests", is_better="higher"),
    )
    return (
        Metric("completed", "requests done", is_better=None),
        Metric("failed", "requests failed", is_better=None),
        Metric("duration", "seconds", is_better="lower"),
        Metric("total_input_tokens", "input tokens", is_better=None),
        Metric("total_output_tokens", "output tokens", is_better=None),
        Metric("request_throughput", "requests/s", is_better="higher"),
        Metric("output_throughput", "output tok/s", is_better="higher"),
        Metric("total_token_throughput", "input + output tok/s", is_better="higher"),
        *(good if with_goodput else ()),
        Metric("max_concurrent_requests", "most requests at once", is_better=None),
        Metric("client_lag_ms", "client late by at most, ms", is_better=None),
        *(
            Metric(f"{statistic}_{time}_ms", f"{time.upper()} {statistic}, ms", is_better="lower")
            for time in TIMES
            for statistic in statistics_of(percentiles)
        ),
    )


def statistics_of(percentiles: Sequence[float]) -> tuple[str, ...]:
    """Names of what is told of each time: mean, median, std, p90, p99."""
    return ("mean", "median", "std", *(f"p{share:g}" for share in percentiles if share != 50))


def summarize(load: Load, percentiles: Sequence[float], limits: Mapping[str, float]) -> dict[str, float]:
    """Figures of one run. Only requests that succeeded count, but for `failed`; times that nobody has are left out."""
    done = [record for record in load.records if record.is_ok]
    num_input, num_output = (sum(getattr(each, name) for each in done) for name in ("input_tokens", "output_tokens"))
    per_s = 1 / load.duration_s if load.duration_s else 0.0
    figures = {
        "completed": len(done),
        "failed": len(load.records) - len(done),
        "duration": load.duration_s,
        "total_input_tokens": num_input,
        "total_output_tokens": num_output,
        "request_throughput": len(done) * per_s,
        "output_throughput": num_output * per_s,
        "total_token_throughput": (num_input + num_output) * per_s,
        "max_concurrent_requests": load.peak_concurrency,
        "client_lag_ms": load.max_lag_s * 1000,
    }
    if limits:
        good = num_good(done, limits)
        figures |= {"request_goodput": good * per_s, "goodput_share": good / len(load.records)}
    for name, values in _times_ms(done).items():
        figures |= _statistics(name, values, percentiles)
    return figures


def _times_ms(records: Sequence[RequestRecord]) -> dict[str, list[float]]:
    return {
        "ttft": [record.ttft_s * 1000 for record in records if record.ttft_s is not None],
        "tpot": [record.tpot_s * 1000 for record in records if record.tpot_s is not None],
        "itl": [gap_s * 1000 for record in records for gap_s in record.gaps_s],
        "e2el": [record.e2el_s * 1000 for record in records],
    }


def _statistics(name: str, values: Sequence[float], percentiles: Sequence[float]) -> dict[str, float]:
    if not values:
        return {}
    return {
        f"mean_{name}_ms": fmean(values),
        f"median_{name}_ms": median(values),
        f"std_{name}_ms": pstdev(values),
        **{f"p{share:g}_{name}_ms": percentile(values, share) for share in percentiles},
    }


def details(load: Load, *, with_requests: bool) -> dict[str, Any]:
    """What is no figure: errors by kind with an example, where token counts come from, arrays of every request."""
    failed = [record for record in load.records if not record.is_ok]
    counted = {record.tokens_from for record in load.records if record.is_ok}
    told: dict[str, Any] = {
        "errors": dict(Counter(record.error for record in failed)),
        "error_examples": {record.error: record.detail for record in reversed(failed)},
        "output_tokens_from": counted.pop() if len(counted) == 1 else "mixed" if counted else None,
    }
    if with_requests:
        told["requests"] = {
            "planned_s": [record.planned_s for record in load.records],
            "sent_s": [record.sent_s for record in load.records],
            "ttft_s": [record.ttft_s for record in load.records],
            "tpot_s": [record.tpot_s for record in load.records],
            "e2el_s": [record.e2el_s for record in load.records],
            "itl_s": [record.gaps_s for record in load.records],
            "input_tokens": [record.input_tokens for record in load.records],
            "output_tokens": [record.output_tokens for record in load.records],
            "errors": [record.error for record in load.records],
        }
    return told
