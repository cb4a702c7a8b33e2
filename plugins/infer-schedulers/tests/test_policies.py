"""The two policies by the contract, and what sets them apart."""

from __future__ import annotations

from infer_api.schedulers import SequenceView
from infer_schedulers.policies import ByPriority, FirstComeFirstServed
from infer_testkit.scheduling import SchedulerConformance


class TestFirstComeFirstServed(SchedulerConformance):
    policy = "fcfs"


class TestByPriority(SchedulerConformance):
    policy = "priority"


def view(arrival: int, priority: int) -> SequenceView:
    return SequenceView(arrival, priority, 10, 0, 0, 10, 0, 1)


URGENT_LAST = [view(1, 5), view(2, 0), view(3, -1)]


def test_first_come_first_served_looks_at_nothing_but_arrival() -> None:
    policy = FirstComeFirstServed(None)
    assert sorted(URGENT_LAST, key=policy.rank) == URGENT_LAST
    assert policy.victim(URGENT_LAST) == 2


def test_by_priority_puts_the_lowest_number_first_and_lets_the_highest_give_way() -> None:
    policy = ByPriority(None)
    assert sorted(URGENT_LAST, key=policy.rank) == URGENT_LAST[::-1]
    assert policy.victim(URGENT_LAST) == 0
    assert policy.victim([view(1, 1), view(2, 1)]) == 1
