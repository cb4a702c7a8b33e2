"""Continuous batching: one token budget for decodes and prefill chunks, paged KV, prefix reuse, preemption."""

from __future__ import annotations

import time
from bisect import insort
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from infer.kv.blocks import NULL_BLOCK, BlockPool
from infer.kv.groups import KVGeometry
from infer.kv.prefix import PrefixIndex
from infer.scheduler.pacing import Pacer
from infer.scheduler.sequence import Sequence
from infer_api.schedulers import Policy
from infer_api.specs import KVGroup
from infer_api.steps import AdmittedRow, BlockGrant, PlannedRow, StepPlan

__all__ = ["PlannedStep", "Scheduler", "SchedulerLimits"]

_MAX_LOOKS = 64
"""Sequences that are passed over in one step because they wait for a prefix, before the rest has to wait as well."""


@dataclass(frozen=True)
class SchedulerLimits:
    """Most rows at once, most tokens in a step, the longest sequence in tokens, and the bound on prefill delay."""

    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    max_prefill_delay_s: float = 0.0


@dataclass(frozen=True)
class PlannedStep:
    """A plan for the workers, and whose rows it has: (sequence, epoch it was planned in) in order of `plan.rows`."""

    plan: StepPlan
    owners: list[tuple[Sequence, int]]
    num_prefill: int
    num_decodes: int


@dataclass
class _Draft:
    """The step being put together: rows of one token, and chunks."""

    step_id: int
    budget: int
    singles: list[PlannedRow] = field(default_factory=list)
    chunks: list[PlannedRow] = field(default_factory=list)
    single_owners: list[tuple[Sequence, int]] = field(default_factory=list)
    chunk_owners: list[tuple[Sequence, int]] = field(default_factory=list)
    admitted: list[AdmittedRow] = field(default_factory=list)
    granted: list[BlockGrant] = field(default_factory=list)
    num_prefill: int = 0
    is_short: bool = False
    """A running row lacked blocks: nobody else may be admitted to what it waits for."""

    @property
    def has_rows(self) -> bool:
        return bool(self.singles or self.chunks)

    def owners(self) -> set[int]:
        return {id(sequence) for sequence, _ in (*self.single_owners, *self.chunk_owners)}


class Scheduler:
    """Owns the queues, the slots and the blocks.

    `plan` puts the next step together; `retire` takes in that one is done; `remove` ends a sequence. Slots and
    blocks go back to their pools when the last submitted step that names them has retired. `waiting` and `running`
    are kept in the order of the policy's ranks. A complete block can be found by its content once the step that
    completed it has retired.
    """

    def __init__(self, geometry: KVGeometry, limits: SchedulerLimits, policy: Policy) -> None:
        self.limits = limits
        self.geometry = geometry
        self.pool = BlockPool(geometry.num_blocks)
        self.prefixes = PrefixIndex(self.pool, geometry)
        self.pacer = Pacer(limits.max_prefill_delay_s)
        self.waiting: list[Sequence] = []
        self.running: list[Sequence] = []
        self.num_preemptions = self.num_cached_tokens = 0
        self._policy = policy
        self._free_slots = list(range(limits.max_num_seqs - 1, -1, -1))
        self._held: list[tuple[int, int, list[int]]] = []
        self._retired_step = -1
        self._num_arrived = 0
        self._awaited: Counter[bytes] = Counter()  # keys of blocks that admitted rows are about to complete
        self._has_windows = any(group.spec.retain.window is not None for group in geometry.groups)

    @property
    def has_work(self) -> bool:
        return bool(self.waiting or self.running)

    @property
    def is_idle_clean(self) -> bool:
        """Nothing queued, and every slot and block back in its pool."""
        slots_back = len(self._free_slots) == self.limits.max_num_seqs
        return not self.has_work and slots_back and self.pool.num_free == self.pool.num_usable

    @property
    def num_free_slots(self) -> int:
        return len(self._free_slots)

    def add(self, sequence: Sequence) -> None:
        """Queue a sequence where the policy ranks it."""
        self._num_arrived += 1
        sequence.arrival = self._num_arrived
        self._queue(sequence)

    def plan(self, step_id: int) -> PlannedStep | None:
        """The next step, or None when no row can run now. Decodes come before prefills, old rows before new."""
        draft = _Draft(step_id, self.limits.max_num_batched_tokens)
        prefills = self._continue_decodes(draft)
        num_decodes = len(draft.singles)
        if num_decodes:
            draft.budget = self.pacer.budget(draft.budget)
        self._continue_prefills(prefills, draft)
        if self.waiting and not draft.is_short:
            self._admit_waiting(draft, self._promised(prefills))
        if not draft.has_rows:
            return None
        plan = StepPlan(
            step_id=step_id, rows=draft.singles + draft.chunks, admitted=draft.admitted, granted=draft.granted
        )
        return PlannedStep(plan, draft.single_owners + draft.chunk_owners, draft.num_prefill, num_decodes)

    def remove(self, sequence: Sequence) -> None:
        """End a sequence wherever it is. What it holds returns when its last submitted step has retired."""
        sequence.is_finished = True
        if sequence.slot >= 0:
            self.running.remove(sequence)
            self._give_back(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def retire(self, step: PlannedStep, failed_slots: Iterable[int] = ()) -> None:
        """`step` and all before it are done: rows have their KV, and what waited for them returns.

        What rows of `failed_slots` computed or read is not trusted: nobody will find it any more.
        """
        self._retired_step = step.plan.step_id
        failed, block_tokens = set(failed_slots), self.geometry.block_tokens
        for (sequence, epoch), row in zip(step.owners, step.plan.rows, strict=True):
            if sequence.epoch != epoch or sequence.slot < 0:
                continue
            sequence.num_computed = row.length
            if row.slot in failed:
                for table in sequence.blocks:
                    self.pool.forget(table)
                sequence.root = None
            elif sequence.root is not None and row.length // block_tokens > sequence.num_published:
                self._publish(sequence, row.length // block_tokens)
        if self._held:
            done = [held for held in self._held if held[0] <= self._retired_step]
            self._held = [held for held in self._held if held[0] > self._retired_step]
            for _, slot, block_ids in done:
                self._return(slot, block_ids)

    def check(self) -> None:
        """Assert that slots, blocks and queues agree with each other."""
        live: Counter[int] = Counter()
        for sequence in self.running:
            assert sequence.slot >= 0
            assert not sequence.is_finished
            for table in sequence.blocks:
                assert len(table) * self.geometry.block_tokens == sequence.capacity
                live.update(block_id for block_id in table if block_id != NULL_BLOCK)
        for _, _, block_ids in self._held:
            live.update(block_id for block_id in block_ids if block_id != NULL_BLOCK)
        self.pool.check(dict(live))
        slots = [sequence.slot for sequence in self.running] + [slot for _, slot, _ in self._held if slot >= 0]
        assert sorted(slots + self._free_slots) == list(range(self.limits.max_num_seqs))
        for queue in (self.waiting, self.running):
            assert [each.rank for each in queue] == sorted(each.rank for each in queue)
        assert all(sequence.slot < 0 and not sequence.capacity for sequence in self.waiting)
        assert sum(self._awaited.values()) == sum(len(sequence.awaited) for sequence in self.running)

    # -- planning ---------------------------------------------------------------------------------------

    def _continue_decodes(self, draft: _Draft) -> list[Sequence]:
        """Plan every row that lacks one token; returns those that lack more. This is the loop that has to be fast."""
        prefills = []
        step_id, has_windows = draft.step_id, self._has_windows
        for sequence in tuple(self.running):
            # `Sequence.todo`, spelled out: a property costs more than all the rest for a row.
            planned, length, target = sequence.num_planned, sequence.length, sequence.target
            todo = (length if length < target else target) - planned
            if todo != 1:
                if todo > 1:
                    prefills.append(sequence)
            elif has_windows or planned >= sequence.capacity or sequence.scores_only:
                if sequence.slot >= 0 and self._make_room(sequence, 1, draft):
                    self._put(sequence, 1, draft)
            elif sequence.slot >= 0:
                sequence.num_planned = end = planned + 1
                sequence.last_step = step_id
                is_last = end == length
                if is_last:
                    sequence.length = length + 1
                draft.singles.append(PlannedRow(sequence.slot, 1, end, is_last))
                draft.single_owners.append((sequence, sequence.epoch))
        draft.budget -= len(draft.singles)
        return prefills

    def _continue_prefills(self, prefills: list[Sequence], draft: _Draft) -> None:
        there = [sequence for sequence in prefills if sequence.slot >= 0]
        if not there or draft.budget <= 0:
            return
        shares = self._policy.share(draft.budget, [sequence.view() for sequence in there])
        for sequence, share in zip(there, shares, strict=True):
            count = min(share, sequence.todo, draft.budget)
            if count > 0 and sequence.slot >= 0 and self._make_room(sequence, count, draft):
                self._put(sequence, count, draft)
                draft.budget -= count

    def _promised(self, prefills: Iterable[Sequence]) -> int:
        """Blocks that rows will take until their prompts are computed; others would be preempted for them."""
        there = (sequence for sequence in prefills if sequence.slot >= 0)
        return sum(max(0, self.geometry.blocks_for(len(each.token_ids)) - each.num_blocks) for each in there)

    def _admit_waiting(self, draft: _Draft, promised: int) -> None:
        at, looks = 0, 0
        while at < len(self.waiting) and draft.budget > 0 and self._free_slots and looks < _MAX_LOOKS:
            sequence = self.waiting[at]
            keys = self._usable_keys(sequence)
            num_hit = self.prefixes.match(keys)
            if num_hit < len(keys) and self._awaited[keys[num_hit]]:
                at, looks = at + 1, looks + 1  # another row computes its prefix: it will find that in the next step
                continue
            tables = self.prefixes.blocks(keys, num_hit)
            if not self._fits(sequence, tables, promised):
                break
            count = min(self._policy.share(draft.budget, [sequence.view()])[0], sequence.todo, draft.budget)
            if count <= 0:
                break
            del self.waiting[at]
            self._admit(sequence, keys, num_hit, tables, draft)
            count = min(count, sequence.todo)
            self._put(sequence, count, draft)
            draft.budget -= count
            promised += self._promised([sequence])

    def _usable_keys(self, sequence: Sequence) -> list[bytes]:
        """Keys of the blocks that it may take over: all complete ones, but at least one token is left to compute."""
        if sequence.request.sampling.prompt_logprobs is not None:
            return []  # each token of the prompt has to be scored
        return sequence.keys_of((len(sequence.token_ids) - 1) // self.geometry.block_tokens, self.geometry.block_tokens)

    def _fits(self, sequence: Sequence, tables: list[list[int]], promised: int) -> bool:
        found = [block_id for table in tables for block_id in table if block_id != NULL_BLOCK]
        num_revived = sum(self.pool.num_users(block_id) == 0 for block_id in found)
        return self.geometry.blocks_for(sequence.length) - len(found) <= self.pool.num_free - num_revived - promised

    def _admit(
        self, sequence: Sequence, keys: list[bytes], num_hit: int, tables: list[list[int]], draft: _Draft
    ) -> None:
        num_tokens = num_hit * self.geometry.block_tokens
        sequence.slot = self._free_slots.pop()
        insort(self.running, sequence, key=lambda each: each.rank)
        if sequence.queued_s is None:
            sequence.queued_s = time.monotonic() - sequence.queued_at
            sequence.num_cached = num_tokens
            self.num_cached_tokens += num_tokens
        sequence.awaited = keys[num_hit:]
        self._awaited.update(sequence.awaited)
        draft.admitted.append(_admission(sequence, num_tokens))
        if num_hit == 0:
            return
        sequence.num_planned = sequence.num_computed = sequence.capacity = num_tokens
        sequence.num_published = num_hit
        sequence.blocks = tables
        for group, table in zip(self.geometry.groups, tables, strict=True):
            self.pool.share(table)
            sequence.block_floor[group.index] = self.geometry.first_needed(group, num_tokens)
            draft.granted.append(BlockGrant(sequence.slot, group.index, 0, list(table)))

    def _put(self, sequence: Sequence, count: int, draft: _Draft) -> None:
        if self._has_windows:
            self._slide_windows(sequence, draft.granted)
        end = sequence.num_planned + count
        if end > sequence.capacity:
            missing = -(-end // self.geometry.block_tokens) - sequence.capacity // self.geometry.block_tokens
            for index, table in enumerate(sequence.blocks):
                block_ids = self.pool.take(missing)
                draft.granted.append(BlockGrant(sequence.slot, index, len(table), block_ids))
                table.extend(block_ids)
            sequence.capacity += missing * self.geometry.block_tokens
        samples = end == sequence.length and not sequence.scores_only
        sequence.num_planned = end
        sequence.length += samples
        sequence.last_step = draft.step_id
        row, owner = PlannedRow(sequence.slot, count, end, samples), (sequence, sequence.epoch)
        if count == 1:
            draft.singles.append(row)
            draft.single_owners.append(owner)
        else:
            draft.chunks.append(row)
            draft.chunk_owners.append(owner)
            draft.num_prefill += count

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
        missing = max(0, end - sequence.capacity // self.geometry.block_tokens) * len(sequence.blocks)
        if not self._has_windows or self._is_in_flight(sequence):
            return missing
        for group in self.geometry.groups:
            slid = sequence.blocks[group.index][sequence.block_floor[group.index] : self._window_floor(sequence, group)]
            missing -= sum(self.pool.num_users(block_id) == 1 for block_id in slid)
        return missing

    def _make_room(self, sequence: Sequence, count: int, draft: _Draft) -> bool:
        """Preempt whom the policy names until `count` more tokens of `sequence` fit.

        False when it has to wait: for blocks that steps under way still hold, or for rows that go before it.
        """
        while (missing := self._missing_blocks(sequence, count)) > self.pool.num_free:
            draft.is_short = True
            if missing <= self.pool.num_free + self._num_held:
                return False  # preempting more rows would only throw their work away
            planned = draft.owners()
            candidates = [other for other in self.running if id(other) not in planned]
            victim = candidates[self._policy.victim([other.view() for other in candidates])]
            if victim is sequence and (draft.has_rows or self._is_in_flight(sequence)):
                return False  # others go on, or its own windows slide, when what is under way has retired
            self._preempt(victim)
            if victim is sequence:
                return False
        return True

    def _preempt(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self._give_back(sequence)
        sequence.reset()
        self._queue(sequence)
        self.num_preemptions += 1

    def _queue(self, sequence: Sequence) -> None:
        sequence.rank = self._policy.rank(sequence.view())
        insort(self.waiting, sequence, key=lambda each: each.rank)

    # -- ownership --------------------------------------------------------------------------------------

    def _publish(self, sequence: Sequence, num_blocks: int) -> None:
        """Its first `num_blocks` blocks are complete; whoever begins alike may use them."""
        keys = sequence.keys_of(num_blocks, self.geometry.block_tokens)
        self.prefixes.publish(keys, sequence.blocks, sequence.num_published, num_blocks)
        sequence.num_published = num_blocks
        if sequence.awaited:
            done = set(keys)
            self._await_no_more([key for key in sequence.awaited if key in done])
            sequence.awaited = [key for key in sequence.awaited if key not in done]

    def _await_no_more(self, keys: Iterable[bytes]) -> None:
        for key in keys:
            self._awaited[key] -= 1
            if self._awaited[key] <= 0:
                del self._awaited[key]

    @property
    def _num_held(self) -> int:
        """Blocks that return when the steps under way have retired."""
        users = Counter(block_id for _, _, held in self._held for block_id in held if block_id != NULL_BLOCK)
        return sum(self.pool.num_users(block_id) == count for block_id, count in users.items())

    def _is_in_flight(self, sequence: Sequence) -> bool:
        return sequence.last_step > self._retired_step

    def _give_back(self, sequence: Sequence) -> None:
        # The end of a sequence is the least likely to be asked for again, so it is the first to be reclaimed.
        block_ids = [block_id for table in sequence.blocks for block_id in reversed(table)]
        self._hold(sequence.last_step, sequence.slot, block_ids)
        self._await_no_more(sequence.awaited)
        sequence.awaited = []
        sequence.slot = -1
        sequence.capacity = 0
        sequence.blocks = [[] for _ in sequence.blocks]

    def _hold(self, last_step: int, slot: int, block_ids: list[int]) -> None:
        if last_step <= self._retired_step:
            self._return(slot, block_ids)
        else:
            self._held.append((last_step, slot, block_ids))

    def _return(self, slot: int, block_ids: Iterable[int]) -> None:
        self.pool.release(block_ids)
        if slot >= 0:
            self._free_slots.append(slot)


def _admission(sequence: Sequence, num_computed: int) -> AdmittedRow:
    request = sequence.request
    return AdmittedRow(
        slot=sequence.slot,
        token_ids=list(sequence.token_ids),
        num_prompt=sequence.num_prompt,
        num_computed=num_computed,
        sampling=request.sampling,
        vocab_size=request.vocab_size,
        stop_ids=tuple(sequence.end_ids),
    )
