"""The scheduler under random adds, aborts, steps in flight and failures, with a model of the memory behind it.

The memory says which tokens each block holds. A row may only be told to skip tokens that its blocks really hold.
"""

from __future__ import annotations

from collections import deque

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from infer.kv.blocks import NULL_BLOCK
from infer.kv.groups import KVGeometry, form_groups
from infer.kv.prefix import root_key
from infer.scheduler.scheduler import PlannedStep, Scheduler, SchedulerLimits
from infer.scheduler.sequence import Sequence
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.specs import KVSpec, KVTensor, Retain
from infer_testkit.fakes.policies import InTurn

BLOCK, LONGEST = 4, 48
TENSORS = (KVTensor("k", 1, 8),)


class SchedulerMachine(RuleBasedStateMachine):
    """Rows draw token `length % 3`, so that sequences that began alike go on alike."""

    @initialize(
        windows=st.lists(st.sampled_from([None, 3, 9]), min_size=1, max_size=3),
        budget=st.sampled_from([4, 7, 32]),
        spare=st.integers(0, 12),
        depth=st.integers(1, 3),
    )
    def start(self, windows: list[int | None], budget: int, spare: int, depth: int) -> None:
        specs = [KVSpec(TENSORS, retain=Retain(window=each)) if each else KVSpec(TENSORS) for each in windows]
        groups = form_groups({f"layer{at}": spec for at, spec in enumerate(specs)}, BLOCK)
        needed = KVGeometry(groups, 2, BLOCK, budget).blocks_for(LONGEST)
        self.geometry = KVGeometry(groups, 1 + needed + spare, BLOCK, budget)
        self.scheduler = Scheduler(self.geometry, SchedulerLimits(4, budget, LONGEST), InTurn())
        self.depth = depth
        self.steps: deque[PlannedStep] = deque()
        self.num_steps = 0
        self.alive: list[Sequence] = []
        self.memory: dict[tuple[int, int], tuple[int, ...]] = {}  # (block, offset) → tokens up to there, in order
        self.tables: dict[int, list[list[int]]] = {}
        self.tokens: dict[int, list[int]] = {}

    @rule(
        prefix=st.integers(0, 2),
        length=st.integers(1, 30),
        answer=st.integers(0, 15),
        salt=st.sampled_from(["", "", "s"]),
        priority=st.integers(0, 2),
    )
    def add(self, prefix: int, length: int, answer: int, salt: str, priority: int) -> None:
        sampling = SamplingParams(max_tokens=answer)
        prompt = [(prefix * (at // 9) + at) % 5 for at in range(length)]
        request = EngineRequest(request_id="r", prompt_ids=prompt, sampling=sampling, priority=priority)
        sequence = Sequence(request, len(self.geometry.groups), LONGEST, root_key("", "", salt))
        self.scheduler.add(sequence)
        self.alive.append(sequence)

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        sequence = self.alive.pop(data.draw(st.integers(0, len(self.alive) - 1)))
        self.scheduler.remove(sequence)

    @precondition(lambda self: len(self.steps) < self.depth)
    @rule()
    def plan(self) -> None:
        step = self.scheduler.plan(self.num_steps)
        if step is None:
            assert self.steps or not self.alive, "nothing runs, and none of those who wait can be planned"
            return
        self.num_steps += 1
        self.steps.append(step)
        self._compute(step)

    @precondition(lambda self: self.steps)
    @rule(fails=st.sampled_from([False, False, True]), data=st.data())
    def finish(self, fails: bool, data: st.DataObject) -> None:
        step = self.steps.popleft()
        failed = None
        if fails:
            failed = data.draw(st.sampled_from(step.plan.rows)).slot
        self.scheduler.retire(step, [] if failed is None else [failed])
        if failed is not None:
            self._assert_unknown(failed)
        for (sequence, epoch), row in zip(step.owners, step.plan.rows, strict=True):
            if sequence.is_finished or sequence.epoch != epoch:
                continue
            if row.samples:
                sequence.token_ids.append(row.length % 3)
            is_over = sequence.num_computed == sequence.target if sequence.scores_only else False
            is_over = is_over or len(sequence.token_ids) > sequence.target > 0 or row.slot == failed
            if is_over:
                self.scheduler.remove(sequence)
                self.alive.remove(sequence)

    @rule()
    def forget_everything(self) -> None:
        self.scheduler.pool.forget_all()

    @invariant()
    def the_books_agree(self) -> None:
        self.scheduler.check()

    def teardown(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        for _ in range(800):
            if not self.alive and not self.steps:
                break
            if len(self.steps) < self.depth:
                self.plan()
            if self.steps:
                self.finish(False, None)  # type: ignore[arg-type]
        assert not self.alive
        assert self.scheduler.is_idle_clean

    def _assert_unknown(self, slot: int) -> None:
        """What a failed row wrote or read may be wrong: nobody may find it."""
        owner = next((each for each in self.scheduler.running if each.slot == slot), None)
        for group, table in enumerate(owner.blocks if owner is not None else []):
            found = {self.scheduler.pool.find((key, group)) for key in owner.keys}
            assert not found & set(table)

    # -- the device ---------------------------------------------------------------------------------------

    def _compute(self, step: PlannedStep) -> None:
        computed: dict[int, int] = {}
        for row in step.plan.admitted:
            self.tables[row.slot] = [[] for _ in self.geometry.groups]
            self.tokens[row.slot] = list(row.token_ids)
            computed[row.slot] = row.num_computed
        for grant in step.plan.granted:
            table = self.tables[grant.slot][grant.group]
            assert grant.first <= len(table)
            table[grant.first : grant.first + len(grant.block_ids)] = grant.block_ids
        for row in step.plan.rows:
            tokens = self.tokens[row.slot]
            start = row.length - row.num_tokens
            assert computed.get(row.slot, start) == start, "an admitted row begins where its prefix ends"
            assert len(tokens) >= row.length
            self._write(row.slot, start, row.length)
        for row in step.plan.rows:
            self._read(row.slot, row.length - row.num_tokens, row.length)
            if row.samples:
                self.tokens[row.slot].append(row.length % 3)

    def _write(self, slot: int, start: int, end: int) -> None:
        for table in self.tables[slot]:
            for at in range(start, end):
                assert table[at // BLOCK] != NULL_BLOCK
                self.memory[table[at // BLOCK], at % BLOCK] = tuple(self.tokens[slot][: at + 1])

    def _read(self, slot: int, start: int, end: int) -> None:
        for group, table in zip(self.geometry.groups, self.tables[slot], strict=True):
            window = group.spec.retain.window
            first = 0 if window is None else max(0, start - window + 1)
            for at in range(first, end):
                assert self.memory[table[at // BLOCK], at % BLOCK] == tuple(self.tokens[slot][: at + 1])


SchedulerMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=60, deadline=None)
TestScheduler = SchedulerMachine.TestCase
