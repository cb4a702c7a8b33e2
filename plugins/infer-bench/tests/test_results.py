from __future__ import annotations

import pytest

from infer_bench.results import Metric, Results, percentile

SPEED = Metric("speed", "tok/s", is_better="higher")
TIME = Metric("time", "s", is_better="lower")


def test_the_median_is_over_runs_that_have_the_figure() -> None:
    results = Results([SPEED, TIME], ["infer"])
    for figures in ({"speed": 1.0}, {"speed": 9.0, "time": 4.0}, {"speed": 3.0}):
        results.add("infer", figures)
    assert results.find_median("infer", SPEED) == 3.0
    assert results.find_median("infer", TIME) == 4.0


def test_a_figure_that_no_run_has_is_none() -> None:
    results = Results([SPEED], ["infer", "other"])
    assert results.find_median("infer", SPEED) is None
    assert results.find_ratio("other", SPEED) is None


def test_a_ratio_above_1_means_that_infer_is_better_in_both_directions() -> None:
    results = Results([SPEED, TIME], ["infer", "other"])
    results.add("infer", {"speed": 30.0, "time": 2.0})
    results.add("other", {"speed": 10.0, "time": 5.0})
    assert results.find_ratio("other", SPEED) == pytest.approx(3.0)
    assert results.find_ratio("other", TIME) == pytest.approx(2.5)
    assert results.to_dict()["ratios"] == {"other": {"speed": pytest.approx(3.0), "time": pytest.approx(2.5)}}


@pytest.mark.parametrize(("share", "expected"), [(0, 10), (50, 25), (90, 37), (100, 40)])
def test_percentiles_interpolate(share: float, expected: float) -> None:
    assert percentile([40, 10, 30, 20], share) == pytest.approx(expected)


def test_the_percentile_of_one_value_is_that_value() -> None:
    assert percentile([7.0], 99) == 7.0


def test_a_figure_that_is_neither_better_high_nor_low_has_no_ratio() -> None:
    count = Metric("count", "requests", is_better=None)
    results = Results([count], ["infer", "other"])
    results.add("infer", {"count": 2.0})
    results.add("other", {"count": 1.0})
    assert results.find_ratio("other", count) is None
