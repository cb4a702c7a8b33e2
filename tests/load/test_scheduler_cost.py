"""The measurement of the scheduler's cost works; its numbers are for quiet machines."""

from __future__ import annotations

import pytest

from scheduler_cost import LIMIT_US, measure, table


@pytest.mark.parametrize("mix", ["decode", "churn"])
def test_a_step_is_measured_for_every_mix(mix: str) -> None:
    costs = [measure(rows, mix, steps=20, warm_up=2) for rows in (1, 32)]
    assert all(cost.median_us > 0 for cost in costs)
    assert len(table(costs).splitlines()) == 3


@pytest.mark.perf
def test_a_step_of_256_rows_costs_less_than_a_millisecond() -> None:
    assert measure(256, "decode").median_us < LIMIT_US
