"""Tokens of prompts per step, from the time that steps took."""

from __future__ import annotations

import pytest

from infer.scheduler.pacing import Pacer


def settle(pacer: Pacer, *, base_s: float, cost_s: float, steps: int = 40) -> list[float]:
    """Seconds of steps of a machine that behaves linearly, each as large as the pacer allows."""
    seconds = []
    for _ in range(steps):
        pacer.observe(0, 4, base_s)
        count = pacer.budget(2048)
        seconds.append(base_s + count * cost_s)
        pacer.observe(count, 4, seconds[-1])
    return seconds


def test_without_a_bound_a_step_may_be_filled() -> None:
    pacer = Pacer(0.0)
    pacer.observe(2048, 4, 100.0)
    assert pacer.budget(2048) == 2048


@pytest.mark.parametrize("cost_s", [1e-5, 2e-4, 2e-3])
def test_steps_settle_below_the_bound_and_near_it(cost_s: float) -> None:
    seconds = settle(Pacer(0.25), base_s=0.03, cost_s=cost_s)
    assert max(seconds[1:]) <= 0.25
    largest = 0.03 + 2048 * cost_s
    assert seconds[-1] >= min(0.18, largest)


def test_the_first_chunk_is_small_since_nothing_is_known() -> None:
    assert Pacer(0.25).budget(2048) <= 64
    assert Pacer(0.25).budget(8) == 8


def test_a_prompt_gets_on_however_slow_the_machine() -> None:
    pacer = Pacer(0.01)
    settle(pacer, base_s=1.0, cost_s=1.0, steps=5)
    assert pacer.budget(2048) >= 1


def test_a_prompt_gets_a_quarter_of_the_bound_where_decodes_alone_exceed_it() -> None:
    seconds = settle(Pacer(0.25), base_s=0.4, cost_s=1e-3)
    assert seconds[-1] == pytest.approx(0.4 + 0.0625, rel=0.05)


def test_a_base_that_was_measured_in_a_bad_moment_is_corrected_by_steps_with_prompts() -> None:
    pacer = Pacer(0.25)
    settle(pacer, base_s=0.02, cost_s=1e-3)
    for _ in range(20):
        pacer.observe(0, 4, 0.7)
    for _ in range(10):
        count = pacer.budget(2048)
        pacer.observe(count, 4, 0.02 + count * 1e-3)
    assert pacer.budget(2048) >= 100


def test_a_step_that_became_dearer_counts_more_than_one_that_became_cheaper() -> None:
    pacer = Pacer(0.25)
    settle(pacer, base_s=0.0, cost_s=1e-3)
    usual = pacer.budget(2048)
    pacer.observe(usual, 4, usual * 2e-3)
    after_slow = pacer.budget(2048)
    pacer.observe(after_slow, 4, after_slow * 1e-3)
    assert after_slow < usual * 0.7
    assert pacer.budget(2048) < usual
