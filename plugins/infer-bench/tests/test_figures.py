from __future__ import annotations

import pytest

from infer_bench.drive import Load
from infer_bench.figures import details, load_metrics, summarize
from infer_bench.records import RequestRecord


def load() -> Load:
    records = [
        RequestRecord(0, 0.0, ttft_s=0.1, e2el_s=0.5, gaps_s=[0.1, 0.3], input_tokens=10, output_tokens=3),
        RequestRecord(1, 0.5, ttft_s=0.3, e2el_s=0.3, input_tokens=20, output_tokens=1, tokens_from="usage"),
        RequestRecord(2, 0.7, e2el_s=0.2, input_tokens=99, error="HTTP 503", detail="full"),
    ]
    return Load(tuple(records), 2.0, 3, 0.001)


def test_figures_follow_from_the_requests_that_succeeded() -> None:
    figures = summarize(load(), (50, 99), {"ttft": 200.0})
    assert {name: figures[name] for name in ("completed", "failed", "duration", "max_concurrent_requests")} == {
        "completed": 2,
        "failed": 1,
        "duration": 2.0,
        "max_concurrent_requests": 3,
    }
    assert figures["request_throughput"] == 1.0
    assert figures["output_throughput"] == 2.0
    assert figures["total_token_throughput"] == 17.0
    assert (figures["request_goodput"], figures["goodput_share"]) == (0.5, pytest.approx(1 / 3))
    assert (figures["mean_ttft_ms"], figures["median_ttft_ms"]) == pytest.approx((200, 200))
    assert (figures["std_ttft_ms"], figures["p99_ttft_ms"]) == pytest.approx((100, 298))
    assert (figures["mean_tpot_ms"], figures["p50_itl_ms"], figures["mean_e2el_ms"]) == pytest.approx((200, 200, 400))


def test_every_metric_of_the_table_is_a_figure() -> None:
    figures = summarize(load(), (50, 99.9), {"ttft": 200.0})
    assert {metric.key for metric in load_metrics((50, 99.9), with_goodput=True)} <= set(figures)
    assert "p99.9_ttft_ms" in figures


def test_a_run_of_failures_has_no_times() -> None:
    failed = Load(tuple(record for record in load().records if not record.is_ok), 2.0, 1, 0.0)
    figures = summarize(failed, (50,), {})
    assert (figures["completed"], figures["request_throughput"]) == (0, 0)
    assert "mean_ttft_ms" not in figures


def test_details_tell_errors_by_kind_and_every_request_if_asked() -> None:
    told = details(load(), with_requests=True)
    assert (told["errors"], told["error_examples"]) == ({"HTTP 503": 1}, {"HTTP 503": "full"})
    assert told["output_tokens_from"] == "mixed"
    assert told["requests"]["ttft_s"] == [0.1, 0.3, None]
    assert told["requests"]["itl_s"] == [[0.1, 0.3], [], []]
    assert {len(column) for column in told["requests"].values()} == {3}
    assert "requests" not in details(load(), with_requests=False)
