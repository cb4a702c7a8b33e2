"""A scheduling policy for tests of what obeys one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_api.schedulers import SequenceView

__all__ = ["InTurn"]


class InTurn:
    """Ranks by (priority, arrival); the last of that order gives way; prompts take what they need, one by one."""

    def __init__(self, options: Any = None) -> None: ...

    def rank(self, view: SequenceView) -> tuple[float, ...]:
        return (view.priority, view.arrival)

    def victim(self, running: Sequence[SequenceView]) -> int:
        return max(range(len(running)), key=lambda at: self.rank(running[at]))

    def share(self, budget: int, prefills: Sequence[SequenceView]) -> Sequence[int]:
        shares: list[int] = []
        for view in prefills:
            shares.append(min(view.remaining, budget - sum(shares)))
        return shares
