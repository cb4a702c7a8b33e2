"""The engine under any order of arrivals, aborts, steps and cache resets, over an executor that checks every KV read.

Invariants are looked at after each action. At the end every request that was not aborted has exactly the tokens that
it gets alone, and nothing is held.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from infer.engine.core import Engine, EngineRules
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.requests import EngineOutput, EngineRequest, SamplingParams
from infer_api.specs import KVSpec, KVTensor, Retain
from infer_api.steps import StepPlan
from infer_schedulers.policies import ByPriority, FirstComeFirstServed
from infer_testkit.executor import ScriptedExecutor, next_token

VOCAB = 97
MAX_LEN = 64
TENSORS = (KVTensor("k", 1, 8),)
WINDOWS: tuple[tuple[int | None, ...], ...] = ((None,), (None, 9), (5,), (None, 3, 20))
PREFIXES = [[random.Random(f"prefix {i}").randrange(VOCAB) for _ in range(40)] for i in range(3)]


class WatchedExecutor(ScriptedExecutor):
    """Also asserts that nobody writes into a block that another row of the step has in its table."""

    def forward(self, plan: StepPlan) -> StepPlan:
        done = super().forward(plan)
        tokens = self.geometry_.block_tokens
        for group in range(len(self.geometry_.groups)):
            holders: dict[int, list[int]] = {}
            for row in plan.rows:
                for block in self.rows[row.slot].tables[group]:
                    holders.setdefault(block, []).append(row.slot)
            for row in plan.rows:
                table = self.rows[row.slot].tables[group]
                for at in range((row.length - row.num_tokens) // tokens, (row.length - 1) // tokens + 1):
                    assert holders[table[at]] == [row.slot], (
                        f"block {table[at]} is written by one row and held by others"
                    )
        return done


class World:
    """An engine, what was asked of it, and what came out."""

    def __init__(
        self,
        *,
        windows: tuple[int | None, ...] = (None,),
        block_tokens: int = 4,
        spare: int = 0,
        seqs: int = 4,
        budget: int = 16,
        in_flight: int = 1,
        caching: bool = True,
        by_priority: bool = False,
    ) -> None:
        specs = {f"layer{i}": KVSpec(TENSORS, retain=Retain(window=window)) for i, window in enumerate(windows)}
        budget = max(budget, seqs)
        groups = form_groups(specs, block_tokens)
        smallest = 1 + KVGeometry(groups, 2, block_tokens, min(budget, MAX_LEN)).blocks_for(MAX_LEN)
        geometry = KVGeometry(groups, smallest + spare, block_tokens, min(budget, MAX_LEN))
        policy = (ByPriority if by_priority else FirstComeFirstServed)(None)
        rules = EngineRules(in_flight=in_flight, prefix_caching=caching, digest="test")
        limits = SchedulerLimits(seqs, budget, MAX_LEN)
        self.engine = Engine(WatchedExecutor(geometry, VOCAB), geometry, limits, policy, rules)
        self.requests: dict[str, EngineRequest] = {}
        self.outputs: dict[str, list[EngineOutput]] = {}

    def add(self, prompt: list[int], *, siblings: int, max_tokens: int, priority: int = 0, salt: str = "") -> None:
        for _ in range(siblings):
            name = f"r{len(self.requests)}"
            sampling = SamplingParams(max_tokens=max_tokens, n=siblings)
            self.requests[name] = EngineRequest(
                request_id=name,
                prompt_ids=list(prompt),
                sampling=sampling,
                vocab_size=VOCAB,
                priority=priority,
                cache_salt=salt,
            )
            self.outputs[name] = []
            self.engine.add(self.requests[name])

    def step(self) -> None:
        if self.engine.has_work:
            self.take(self.engine.step())

    def abort(self, names: list[str]) -> None:
        self.take(self.engine.abort(names))

    def take(self, outputs: list[EngineOutput]) -> None:
        for output in outputs:
            assert not any(one.finish_reason for one in self.outputs[output.request_id]), "an output after the last one"
            self.outputs[output.request_id].append(output)

    def check(self) -> None:
        """What must hold at any moment."""
        if hasattr(self.engine.scheduler, "check"):
            self.engine.scheduler.check()
        stats = self.engine.stats()
        assert 0 <= stats.num_cached_blocks <= stats.num_free_blocks <= stats.num_blocks
        unfinished = sum(not any(one.finish_reason for one in outputs) for outputs in self.outputs.values())
        assert stats.num_running + stats.num_waiting == unfinished

    def finish(self) -> None:
        """Run to the end, and compare everything with solo runs."""
        for _ in range(5000):
            if not self.engine.has_work:
                break
            self.step()
            self.check()
        assert not self.engine.has_work, "the engine does not come to an end"
        assert self.engine.scheduler.is_idle_clean
        stats = self.engine.stats()
        assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
        for name, request in self.requests.items():
            reason = self.outputs[name][-1].finish_reason
            tokens = [token for output in self.outputs[name] for token in output.token_ids]
            want = alone(request)
            assert tokens == (want if reason != "abort" else want[: len(tokens)]), name
            assert reason in ("length", "abort")


def alone(request: EngineRequest) -> list[int]:
    """What the request gets from an engine of its own: in this world, a hash of all tokens so far."""
    tokens = list(request.prompt_ids)
    assert request.sampling.max_tokens is not None
    for _ in range(min(request.sampling.max_tokens, MAX_LEN - len(tokens))):
        tokens.append(next_token(tokens, VOCAB))
    return tokens[len(request.prompt_ids) :]


def prompt_of(prefix: int, shared: int, own: int, number: int) -> list[int]:
    """`shared` tokens that others have too, then `own` ones."""
    rng = random.Random(f"{number} {own}")
    return (PREFIXES[prefix][:shared] + [rng.randrange(VOCAB) for _ in range(own)])[: MAX_LEN - 1] or [1]


class EngineMachine(RuleBasedStateMachine):
    """Rules are what the engine's loop may do, in any order."""

    @initialize(
        windows=st.sampled_from(WINDOWS),
        block_tokens=st.sampled_from([1, 4, 8]),
        spare=st.integers(0, 12),
        seqs=st.integers(1, 6),
        budget=st.sampled_from([1, 5, 16, 64]),
        in_flight=st.integers(1, 3),
        caching=st.booleans(),
        by_priority=st.booleans(),
    )
    def begin(self, **sizes: Any) -> None:
        self.world = World(**sizes)

    @rule(
        prefix=st.integers(0, 2),
        shared=st.sampled_from([0, 3, 8, 16, 31, 40]),
        own=st.integers(0, 20),
        siblings=st.integers(1, 3),
        max_tokens=st.sampled_from([1, 2, 5, 12, 40]),
        priority=st.integers(-1, 1),
        salt=st.sampled_from(["", "", "s"]),
    )
    def add(self, prefix: int, shared: int, own: int, **facts: Any) -> None:
        if len(self.world.requests) < 24:
            self.world.add(prompt_of(prefix, shared, own, len(self.world.requests)), **facts)

    @rule(count=st.integers(1, 8))
    def step(self, count: int) -> None:
        for _ in range(count):
            self.world.step()
            self.world.check()

    @precondition(lambda self: self.world.requests)
    @rule(choices=st.lists(st.integers(0, 23), min_size=1, max_size=4))
    def abort(self, choices: list[int]) -> None:
        self.world.abort([f"r{choice % len(self.world.requests)}" for choice in choices])

    @rule()
    def reset_cache(self) -> None:
        self.world.engine.reset_cache()

    @invariant()
    def holds(self) -> None:
        if hasattr(self, "world"):
            self.world.check()

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.finish()


_CALM = {"deadline": None, "suppress_health_check": list(HealthCheck), "print_blob": True}


def test_any_order_of_events_ends_clean_with_everybody_s_own_tokens() -> None:
    run_state_machine_as_test(EngineMachine, settings=settings(max_examples=40, stateful_step_count=25, **_CALM))


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_any_order_of_events_in_many_more_runs() -> None:
    run_state_machine_as_test(EngineMachine, settings=settings(max_examples=2000, stateful_step_count=60, **_CALM))


@pytest.mark.parametrize("in_flight", [1, 2, 3])
def test_tiny_pools_preempt_and_hit_and_change_no_token(in_flight: int) -> None:
    """The same kind of run from plain seeds, which shows that preemptions, hits and aborts do occur."""
    preemptions = cached = aborted = 0
    for seed in range(12):
        rng = random.Random(f"{seed}/{in_flight}")
        world = World(windows=rng.choice(WINDOWS), spare=rng.randrange(6), seqs=6, in_flight=in_flight)
        for number in range(12):
            prompt = prompt_of(rng.randrange(3), rng.choice([0, 8, 16, 31]), rng.randrange(12), number)
            world.add(prompt, siblings=rng.randint(1, 3), max_tokens=rng.choice([3, 12, 40]))
            for _ in range(rng.randrange(4)):
                world.step()
                world.check()
            if rng.random() < 0.3:
                world.abort([rng.choice(list(world.requests))])
        world.finish()
        stats = world.engine.stats()
        preemptions += stats.num_preemptions
        cached += stats.cached_tokens
        aborted += sum(outputs[-1].finish_reason == "abort" for outputs in world.outputs.values())
    assert min(preemptions, cached, aborted) > 0, (preemptions, cached, aborted)


def test_the_machine_finds_an_engine_that_hands_out_a_block_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that cannot fail proves nothing."""
    world = World(seqs=4, in_flight=1, caching=False, spare=20)
    pool = world.engine.scheduler.pool
    original, handed = pool.take, []

    def take(count: int) -> list[int]:
        handed.append(original(count))
        return handed[-1] if len(handed) < 4 else handed[0][:count] + handed[-1][len(handed[0]) :]

    monkeypatch.setattr(pool, "take", take)
    for number in range(4):
        world.add(prompt_of(0, 0, 9, number), siblings=1, max_tokens=12)
    with pytest.raises(AssertionError):
        world.finish()


def test_a_request_copied_with_another_salt_finds_nothing_of_the_first() -> None:
    """B56: the salt is part of every key."""
    world = World(spare=40)
    world.add(prompt_of(0, 40, 4, 0), siblings=1, max_tokens=3, salt="x")
    world.finish()
    first = world.requests["r0"]
    for salt, expected in (("x", 40), ("y", 0), ("", 0)):
        before = world.engine.stats().cached_tokens
        name = f"again {salt}"
        world.requests[name], world.outputs[name] = msgspec.structs.replace(first, request_id=name, cache_salt=salt), []
        world.engine.add(world.requests[name])
        world.finish()
        assert world.engine.stats().cached_tokens - before == expected
