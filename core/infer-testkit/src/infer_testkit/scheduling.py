"""Conformance of scheduling policies.

class TestMine(SchedulerConformance):
    policy = "mine"
"""

from __future__ import annotations

import random
from typing import ClassVar

import pytest

from infer.engine.core import Engine, EngineRules
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.manifest import SchedulerPlugin
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.schedulers import Policy, SequenceView
from infer_api.specs import KVSpec, KVTensor
from infer_testkit.executor import ScriptedExecutor
from infer_testkit.plugin import PluginConformance, find_manifest, load_implementation

__all__ = ["SchedulerConformance"]

ROUNDS = 200


class SchedulerConformance(PluginConformance):
    """Fill in `policy`; override `options` where the plugin needs some."""

    kind = "schedulers"
    policy: ClassVar[str]
    """Name of the installed plugin."""

    def plugin_name(self) -> str:
        return self.policy

    def options(self) -> object:
        """What the implementation is built with."""
        manifest = find_manifest(self.kind, self.policy)
        return manifest.options() if manifest.options is not None else None

    @pytest.fixture
    def judge(self) -> Policy:
        """The policy, built the way core does."""
        policy: Policy = load_implementation(find_manifest(self.kind, self.policy))(self.options())
        return policy

    @pytest.fixture
    def views(self) -> list[SequenceView]:
        """Sequences in all states, in order of arrival."""
        rng = random.Random()
        return [self._view(rng, arrival) for arrival in range(1, 40)]

    def _view(self, rng: random.Random, arrival: int) -> SequenceView:
        num_tokens = rng.randrange(1, 5000)
        computed = rng.randrange(num_tokens)
        return SequenceView(
            arrival=arrival,
            priority=rng.randrange(-5, 6),
            num_tokens=num_tokens,
            num_generated=rng.randrange(num_tokens),
            num_computed=computed,
            remaining=num_tokens - computed,
            num_preemptions=rng.randrange(3),
            num_blocks=computed // 16,
        )

    def test_it_judges_the_same_views_alike(self, judge: Policy, views: list[SequenceView]) -> None:
        assert [judge.rank(view) for view in views] == [judge.rank(view) for view in views]
        assert judge.victim(views) == judge.victim(list(views))
        assert list(judge.share(512, views)) == list(judge.share(512, views))

    def test_ranks_can_be_compared_and_tell_every_two_sequences_apart(
        self, judge: Policy, views: list[SequenceView]
    ) -> None:
        ranks = sorted(judge.rank(view) for view in views)
        assert len(set(ranks)) == len(views), "two sequences of one rank would swap places from step to step"

    def test_a_victim_is_one_of_those_that_run(self, judge: Policy, views: list[SequenceView]) -> None:
        for count in range(1, len(views)):
            assert 0 <= judge.victim(views[:count]) < count

    def test_shares_stay_in_the_budget_and_somebody_gets_on(self, judge: Policy, views: list[SequenceView]) -> None:
        for budget in (1, 7, 64, 10**6):
            shares = list(judge.share(budget, views))
            assert len(shares) == len(views)
            assert all(0 <= share <= view.remaining for share, view in zip(shares, views, strict=True))
            assert 0 < sum(shares) <= budget

    def test_a_lone_prompt_gets_all_that_it_can_use(self, judge: Policy, views: list[SequenceView]) -> None:
        for view in views:
            assert list(judge.share(view.remaining + 5, [view])) == [view.remaining]

    def test_importance_counts_where_the_manifest_says_so(self, judge: Policy, views: list[SequenceView]) -> None:
        manifest = find_manifest(self.kind, self.policy)
        assert isinstance(manifest, SchedulerPlugin)
        best = min(views, key=judge.rank)
        if manifest.supports.heeds_priority:
            assert best.priority == min(view.priority for view in views)

    def test_an_engine_under_it_finishes_everything_in_a_pool_that_is_too_small(self, judge: Policy) -> None:
        geometry = KVGeometry(form_groups({"a": KVSpec((KVTensor("k", 1, 8),))}, 4), 24, 4, 16)
        limits = SchedulerLimits(8, 16, 64)
        engine = Engine(ScriptedExecutor(geometry), geometry, limits, judge, EngineRules())
        rng, ended = random.Random(), 0
        for number in range(ROUNDS):
            if number % 4 == 0:
                engine.add(self._request(rng, number))
            ended += sum(output.finish_reason is not None for output in engine.step()) if engine.has_work else 0
            engine.scheduler.check()
        while engine.has_work:
            ended += sum(output.finish_reason is not None for output in engine.step())
        assert ended == len(range(0, ROUNDS, 4))
        assert engine.scheduler.is_idle_clean

    def _request(self, rng: random.Random, number: int) -> EngineRequest:
        prompt = [rng.randrange(97) for _ in range(rng.randrange(1, 40))]
        sampling = SamplingParams(max_tokens=rng.randrange(1, 20))
        return EngineRequest(
            request_id=str(number), prompt_ids=prompt, sampling=sampling, vocab_size=97, priority=rng.randrange(3)
        )
