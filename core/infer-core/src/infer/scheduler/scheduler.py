"""Continuous batching: one token budget for decodes and prefill chunks, paged KV, preemption by recomputation."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from infer.kv.blocks import NULL_BLOCK, BlockPool
from infer.kv.groups import KVGeometry
from infer.scheduler.sequence import Sequence
from infer_api.specs import KVGroup
from infer_api.steps import AdmittedRow, BlockGrant, PlannedRow, StepPlan

__all__ = ["PlannedStep", "Scheduler", "SchedulerLimits"]


@dataclass(frozen=True)
class SchedulerLimits:
    """Most rows at once, most tokens in a step, and the longest sequence in tokens."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int


@dataclass(frozen=True)
class PlannedStep:
    """A plan for the workers, and whose rows it has: (sequence, epoch it was planned in) in order of `plan.rows`."""

    plan: StepPlan
    owners: list[tuple[Sequence, int]]


class _Draft:
    """The step being put together."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.rows: list[tuple[Sequence, PlannedRow]] = []
        self.admitted: list[AdmittedRow] = []
        self.granted: list[BlockGrant] = []
        self.is_short = False
        """A running row lacked blocks: nobody else may be admitted to what it waits for."""


class Scheduler:
    """Owns the queues, the slots and the blocks.

    `plan` puts the next step together; `retire` takes in that one is done; `remove` ends a sequence. Slots and
    blocks go back to their pools when the last submitted step that names them has retired.
    """

    def __init__(self, geometry: KVGeometry, limits: SchedulerLimits) -> None:
        self.limits = limits
        self.geometry = geometry
        self.pool = BlockPool(geometry.num_blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.num_preemptions = 0
        self._free_slots = list(range(limits.max_num_seqs - 1, -1, -1))
        self._held: list[tuple[int, int, list[int]]] = []
        self._retired_step = -1

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def is_idle_clean(self) -> bool:
        """Nothing queued, and every slot and block back in its pool."""
        slots_back = len(self._free_slots) == self.limits.max_num_seqs
        return not self.has_work and slots_back and self.pool.num_free == self.pool.num_usable

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence, in order of priority, then arrival."""
        priority = sequence.request.priority
        if not self.waiting or self.waiting[-1].request.priority <= priority:
            self.waiting.append(sequence)
            return
        self.waiting.insert(sum(other.request.priority <= priority for other in self.waiting), sequence)

    def plan(self, step_id: int) -> PlannedStep | None:
        """The next step, or None when no row can run now. Decodes come before prefills, old rows before new."""
        draft = _Draft(self.limits.max_num_batched_tokens)
        self._continue_running(draft, step_id)
        if not draft.is_short:
            self._admit_waiting(draft, step_id)
        if not draft.rows:
            return None
        draft.rows.sort(key=lambda row: row[1].num_tokens > 1)
        plan = StepPlan(
            step_id=step_id,
            rows=[row for _, row in draft.rows],
            admitted=draft.admitted,
            granted=draft.granted,
        )
        return PlannedStep(plan, [(sequence, sequence.epoch) for sequence, _ in draft.rows])

    def remove(self, sequence: Sequence) -> None:
        """End a sequence wherever it is. What it holds returns when its last submitted step has retired."""
        sequence.is_finished = True
        if sequence.slot >= 0:
            self.running.remove(sequence)
            self._give_back(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def retire(self, step: PlannedStep) -> None:
        """`step` and all before it are done: rows have their KV, and what waited for them returns."""
        self._retired_step = step.plan.step_id
        for (sequence, epoch), row in zip(step.owners, step.plan.rows, strict=True):
            if sequence.epoch == epoch:
                sequence.num_computed = row.length
        done = [held for held in self._held if held[0] <= self._retired_step]
        self._held = [held for held in self._held if held[0] > self._retired_step]
        for _, slot, block_ids in done:
            self._return(slot, block_ids)

    # -- planning ---------------------------------------------------------------------------------------

    def _continue_running(self, draft: _Draft, step_id: int) -> None:
        decodes_first = sorted(self.running, key=lambda sequence: sequence.remaining > 1)
        for sequence in decodes_first:
            if draft.budget == 0:
                break
            if sequence.slot < 0 or sequence.remaining <= 0 or not self._may_draw(sequence):
                continue
            count = min(sequence.remaining, draft.budget)
            if self._make_room(sequence, count, draft):
                self._put(sequence, count, draft, step_id)

    def _may_draw(self, sequence: Sequence) -> bool:
        return sequence.wants_step(self.limits.max_model_len)

    def _admit_waiting(self, draft: _Draft, step_id: int) -> None:
        while self.waiting and draft.budget > 0 and self._free_slots:
            sequence = self.waiting[0]
            if self.geometry.blocks_for(sequence.length) > self.pool.num_free:
                break
            self.waiting.popleft()
            sequence.slot = self._free_slots.pop()
            self.running.append(sequence)
            draft.admitted.append(_admission(sequence))
            self._put(sequence, min(sequence.remaining, draft.budget), draft, step_id)

    def _put(self, sequence: Sequence, count: int, draft: _Draft, step_id: int) -> None:
        self._slide_windows(sequence, draft.granted)
        end = sequence.num_planned + count
        for group in self.geometry.groups:
            table = sequence.blocks[group.index]
            missing = -(-end // self.geometry.block_tokens) - len(table)
            if missing > 0:
                block_ids = self.pool.take(missing)
                draft.granted.append(BlockGrant(sequence.slot, group.index, len(table), block_ids))
                table.extend(block_ids)
        samples = end == sequence.length
        sequence.num_planned = end
        sequence.num_in_flight += samples
        sequence.last_step = step_id
        draft.budget -= count
        draft.rows.append((sequence, PlannedRow(sequence.slot, count, end, samples)))

    def _slide_windows(self, sequence: Sequence, granted: list[BlockGrant]) -> None:
        """Null the table entries that no query from `num_computed` on can see, and give their blocks back."""
        for group in self.geometry.groups:
            floor, old = self._window_floor(sequence, group), sequence.block_floor[group.index]
            if floor <= old:
                continue
            table = sequence.blocks[group.index]
            self._hold(sequence.last_step, -1, table[old:floor])
            table[old:floor] = [NULL_BLOCK] * (floor - old)
            granted.append(BlockGrant(sequence.slot, group.index, old, [NULL_BLOCK] * (floor - old)))
            sequence.block_floor[group.index] = floor

    def _window_floor(self, sequence: Sequence, group: KVGroup) -> int:
        return min(self.geometry.first_needed(group, sequence.num_computed), len(sequence.blocks[group.index]))

    def _missing_blocks(self, sequence: Sequence, count: int) -> int:
        """Blocks that `count` more tokens need, less those that sliding the windows gives back at once."""
        end = -(-(sequence.num_planned + count) // self.geometry.block_tokens)
        missing = sum(max(0, end - len(table)) for table in sequence.blocks)
        if self._is_in_flight(sequence):
            return missing
        groups = self.geometry.groups
        return missing - sum(self._window_floor(sequence, each) - sequence.block_floor[each.index] for each in groups)

    def _make_room(self, sequence: Sequence, count: int, draft: _Draft) -> bool:
        """Preempt the youngest rows of lowest priority until `count` more tokens of `sequence` fit.

        False when it has to wait: for blocks that steps under way still hold, or for rows that go before it.
        """
        while (missing := self._missing_blocks(sequence, count)) > self.pool.num_free:
            draft.is_short = True
            if missing <= self.pool.num_free + self._num_held:
                return False  # preempting more rows would only throw their work away
            planned = {id(row[0]) for row in draft.rows}
            victims = [other for other in self.running if id(other) not in planned]
            victim = max(reversed(victims), key=lambda other: other.request.priority)
            if victim is sequence and (draft.rows or self._is_in_flight(sequence)):
                return False  # others go on, or its own windows slide, when what is under way has retired
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._give_back(sequence)
        sequence.reset()
        # Before its equals: it has waited longest.
        ahead = sum(other.request.priority < sequence.request.priority for other in self.waiting)
        self.waiting.insert(ahead, sequence)
        self.num_preemptions += 1

    # -- ownership --------------------------------------------------------------------------------------

    @property
    def _num_held(self) -> int:
        """Blocks that return when the steps under way have retired."""
        return sum(block_id != NULL_BLOCK for _, _, block_ids in self._held for block_id in block_ids)

    def _is_in_flight(self, sequence: Sequence) -> bool:
        return sequence.last_step > self._retired_step

    def _give_back(self, sequence: Sequence) -> None:
        block_ids = [block_id for table in sequence.blocks for block_id in table]
        self._hold(sequence.last_step, sequence.slot, block_ids)
        sequence.slot = -1
        sequence.blocks = [[] for _ in sequence.blocks]

    def _hold(self, last_step: int, slot: int, block_ids: list[int]) -> None:
        if last_step <= self._retired_step:
            self._return(slot, block_ids)
        else:
            self._held.append((last_step, slot, block_ids))

    def _return(self, slot: int, block_ids: Iterable[int]) -> None:
        self.pool.release(list(block_ids))
        if slot >= 0:
            self._free_slots.append(slot)


def _admission(sequence: Sequence) -> AdmittedRow:
    request = sequence.request
    ends = () if request.sampling.ignore_eos else request.eos_ids
    return AdmittedRow(
        slot=sequence.slot,
        token_ids=sequence.token_ids,
        num_prompt=sequence.num_prompt,
        num_computed=0,
        sampling=request.sampling,
        vocab_size=request.vocab_size,
        stop_ids=(*ends, *request.sampling.stop_token_ids),
    )
