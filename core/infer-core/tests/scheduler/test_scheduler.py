"""The scheduler alone: what a plan holds, and when slots and blocks come back."""

from __future__ import annotations

from infer.kv.blocks import NULL_BLOCK
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import PlannedStep, Scheduler, SchedulerLimits
from infer.scheduler.sequence import Sequence
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.specs import KVSpec, KVTensor, Retain
from infer_testkit.fakes.policies import InTurn

TENSORS = (KVTensor("k", 1, 8),)
FULL, WINDOW = KVSpec(TENSORS), KVSpec(TENSORS, retain=Retain(window=4))


def make_scheduler(spec: KVSpec = FULL, *, num_blocks: int = 50, seqs: int = 4, budget: int = 16) -> Scheduler:
    geometry = KVGeometry(form_groups({"a": spec}, 4), num_blocks, 4, budget)
    return Scheduler(geometry, SchedulerLimits(seqs, budget, 64), InTurn())


def add(scheduler: Scheduler, name: str, length: int, **fields: int) -> Sequence:
    request = EngineRequest(request_id=name, prompt_ids=[1] * length, sampling=SamplingParams(), **fields)
    sequence = Sequence(request, 1, 64)
    scheduler.add(sequence)
    return sequence


def finish(scheduler: Scheduler, step: PlannedStep) -> None:
    """What the engine does when a step is done: each sampling row gets a token."""
    scheduler.retire(step)
    for (sequence, epoch), row in zip(step.owners, step.plan.rows, strict=True):
        if row.samples and sequence.epoch == epoch and not sequence.is_finished:
            sequence.token_ids.append(7)


def next_step(scheduler: Scheduler, step_id: int) -> PlannedStep:
    step = scheduler.plan(step_id)
    assert step is not None
    return step


def test_decodes_come_first_and_chunks_share_what_the_budget_leaves() -> None:
    scheduler = make_scheduler()
    short = add(scheduler, "short", 3)
    finish(scheduler, next_step(scheduler, 0))
    long = add(scheduler, "long", 40)
    step = next_step(scheduler, 1)
    assert [owner for owner, _ in step.owners] == [short, long]
    assert [(row.num_tokens, row.length, row.samples) for row in step.plan.rows] == [(1, 4, True), (15, 15, False)]
    assert [row.token_ids for row in step.plan.admitted] == [long.token_ids]


def test_a_slot_and_its_blocks_come_back_when_the_last_step_that_names_them_has_retired() -> None:
    scheduler = make_scheduler(seqs=1)
    row = add(scheduler, "row", 6)
    first, second = next_step(scheduler, 0), next_step(scheduler, 1)
    scheduler.remove(row)
    add(scheduler, "next", 6)
    finish(scheduler, first)
    assert scheduler.plan(2) is None, "the slot is still part of a step under way"
    finish(scheduler, second)
    assert next_step(scheduler, 3).plan.admitted[0].slot == first.plan.rows[0].slot


def test_a_step_may_be_planned_before_the_token_that_it_reads_is_known() -> None:
    scheduler = make_scheduler()
    row = add(scheduler, "row", 5)
    lengths = [next_step(scheduler, step_id).plan.rows[0].length for step_id in range(3)]
    assert lengths == [5, 6, 7]
    assert (row.length, len(row.token_ids)) == (8, 5)


def test_entries_before_a_window_are_granted_the_null_block() -> None:
    scheduler = make_scheduler(WINDOW, budget=4)
    add(scheduler, "row", 12)
    first = next_step(scheduler, 0)
    finish(scheduler, first)
    finish(scheduler, next_step(scheduler, 1))
    grants = next_step(scheduler, 2).plan.granted
    assert [(grant.first, grant.block_ids) for grant in grants if grant.block_ids == [NULL_BLOCK]] == [
        (0, [NULL_BLOCK])
    ]
    assert scheduler.pool.num_free == scheduler.pool.num_usable - 2


def test_the_youngest_row_of_the_lowest_priority_makes_room_and_goes_to_the_head_of_its_equals() -> None:
    scheduler = make_scheduler(num_blocks=7, budget=24)
    rows = [add(scheduler, name, 8, priority=priority) for name, priority in (("old", 0), ("low", 1), ("young", 0))]
    finish(scheduler, next_step(scheduler, 0))
    late = add(scheduler, "late", 8, priority=1)
    step = next_step(scheduler, 1)
    assert [owner for owner, _ in step.owners] == [rows[0], rows[2]]
    assert list(scheduler.waiting) == [rows[1], late]
    assert (rows[1].epoch, rows[1].slot) == (1, -1)


def test_nobody_is_admitted_to_blocks_that_a_running_row_waits_for() -> None:
    scheduler = make_scheduler(num_blocks=5)
    row, other = add(scheduler, "row", 8), add(scheduler, "other", 8)
    first = next_step(scheduler, 0)
    assert scheduler.plan(1) is None, "`other` gives way, but a step under way still holds its blocks"
    assert (other.epoch, row.epoch) == (1, 0)
    add(scheduler, "small", 1)
    assert scheduler.plan(1) is None
    finish(scheduler, first)
    assert next_step(scheduler, 1).owners[0][0] is row
