from __future__ import annotations

import pytest

from infer.engine.vitals import Patience, Vitals, WorkClock


def test_a_clock_counts_the_ticks_of_one_piece_of_work_only() -> None:
    clock = WorkClock(0.5)
    serials = [0, 1, 1, 1, 2, 3, 5, 5, 6, 6]
    assert [clock.tick(serial) for serial in serials] == [0, 0, 0.5, 1.0, 0, 0, 0, 0.5, 0, 0]


@pytest.mark.parametrize(
    ("silence_s", "step_s", "complaint", "verdict"),
    [
        (1.9, 9.9, "", ""),
        (2.0, 0.0, "no sign of life for 2.0 s", ""),
        (8.0, 0.0, "no sign of life for 8.0 s", "no sign of life for 8.0 s"),
        (0.0, 10.0, "stuck in a step for 10.0 s", ""),
        (0.0, 20.0, "stuck in a step for 20.0 s", "stuck in a step for 20.0 s"),
    ],
)
def test_limits_are_told_apart(silence_s: float, step_s: float, complaint: str, verdict: str) -> None:
    vitals = Vitals(Patience(2.0, 8.0, 10.0), silence_s, step_s)
    assert vitals.complaint().endswith(complaint)
    assert bool(vitals.complaint()) == bool(complaint)
    assert vitals.verdict().endswith(verdict)
    assert bool(vitals.verdict()) == bool(verdict)


def test_a_lenient_verdict_waits_longer_for_a_sign_of_life() -> None:
    vitals = Vitals(Patience(2.0, 8.0, 10.0), silence_s=79.0)
    assert vitals.complaint()
    assert not vitals.verdict(10.0)
