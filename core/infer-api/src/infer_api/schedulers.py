"""Kind `schedulers`: who goes first. The scheduler of core owns queues, slots and blocks; a policy only judges.

A policy is pure: it keeps no state between calls and changes nothing it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["Policy", "SequenceView"]


@dataclass(frozen=True, slots=True)
class SequenceView:
    """A sequence as a policy sees it. `arrival` numbers sequences in the order in which they came.

    `num_computed` of its `num_tokens` have their KV; `remaining` tokens are to be computed before the next is drawn.
    `num_blocks` would return when it is preempted.
    """

    arrival: int
    priority: int
    num_tokens: int
    num_generated: int
    num_computed: int
    remaining: int
    num_preemptions: int
    num_blocks: int


class Policy(Protocol):
    """Built by the manifest's `implementation(options)`. Called from the engine's thread."""

    def __init__(self, options: Any) -> None: ...

    def rank(self, view: SequenceView) -> tuple[float, ...]:
        """Place in the queue: the lowest goes first, equals by arrival. Asked when a sequence is queued, and again
        when it returns there after a preemption."""
        ...

    def victim(self, running: Sequence[SequenceView]) -> int:
        """Which of `running` (never empty, oldest admission first) gives its blocks back. Index into it."""
        ...

    def share(self, budget: int, prefills: Sequence[SequenceView]) -> Sequence[int]:
        """Tokens of the step for each of `prefills` (all admitted, rank order), which together may take `budget`.

        Entries are 0 … `remaining`; what one leaves over is lost for this step.
        """
        ...
