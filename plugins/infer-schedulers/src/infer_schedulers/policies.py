"""Pure judgements over sequences: who goes first, who gives way, how prompts share a step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_api.schedulers import SequenceView

__all__ = ["ByPriority", "FirstComeFirstServed"]


def _in_turn(budget: int, prefills: Sequence[SequenceView]) -> list[int]:
    """All that the first needs, then the next: every prompt is done as soon as its place in the queue allows."""
    shares = []
    for view in prefills:
        shares.append(min(view.remaining, budget))
        budget -= shares[-1]
    return shares


class FirstComeFirstServed:
    """In order of arrival. Whoever came last gives way: it has the least to lose, and nobody waits for ever."""

    def __init__(self, options: Any) -> None: ...

    def rank(self, view: SequenceView) -> tuple[float, ...]:
        return (view.arrival,)

    def victim(self, running: Sequence[SequenceView]) -> int:
        return max(range(len(running)), key=lambda at: running[at].arrival)

    def share(self, budget: int, prefills: Sequence[SequenceView]) -> Sequence[int]:
        return _in_turn(budget, prefills)


class ByPriority:
    """In order of (priority, arrival); the lowest number is the most important. The last of that order gives way."""

    def __init__(self, options: Any) -> None: ...

    def rank(self, view: SequenceView) -> tuple[float, ...]:
        return (view.priority, view.arrival)

    def victim(self, running: Sequence[SequenceView]) -> int:
        return max(range(len(running)), key=lambda at: (running[at].priority, running[at].arrival))

    def share(self, budget: int, prefills: Sequence[SequenceView]) -> Sequence[int]:
        return _in_turn(budget, prefills)
