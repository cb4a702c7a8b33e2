"""An executor without a model: real step state over Python lists, and a next token that is a hash of the row.

It keeps a model of the KV cache and reads every visible token back through the block tables, so a block that
two rows own, or that was given away too early, fails the step that would have used it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from infer.engine.start import EngineSpec
from infer.kv.blocks import NULL_BLOCK
from infer.kv.groups import KVGeometry, form_groups
from infer.plugins.pluginset import PinnedPlugin, PluginSet
from infer_api.errors import ConfigError
from infer_api.executors import WorkerSpec
from infer_api.requests import RowError, SamplingParams, TokenLogprobs
from infer_api.specs import KVSpec, KVTensor
from infer_api.steps import PlannedRow, PromptScores, SampledRow, SampleInputs, StepPlan, StepResult

__all__ = ["Refusal", "ScriptedExecutor", "next_token", "scripted_executor", "scripted_spec"]


def next_token(token_ids: Sequence[int], vocab_size: int) -> int:
    """The token that follows `token_ids` in this world."""
    return zlib.crc32(repr(list(token_ids)).encode()) % vocab_size


class Refusal(ConfigError):
    """An error of the executor's own, as plugins have them."""


@dataclass
class _Row:
    tokens: list[int]
    num_computed: int
    tables: list[list[int]]
    num_prompt: int
    sampling: SamplingParams


@dataclass
class ScriptedExecutor:
    """`before_sample` may return an error text for (slot, tokens so far), which fails that row."""

    geometry_: KVGeometry
    vocab_size: int = 97
    before_sample: Callable[[int, list[int]], str | None] = lambda slot, tokens: None
    plans: list[StepPlan] = field(default_factory=list)
    rows: dict[int, _Row] = field(default_factory=dict)
    memory: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """(block, offset) → (token, position) that was written there last."""
    results: dict[int, StepResult] = field(default_factory=dict)
    break_at: int = -1

    hang_at: int = -1
    hang_s: float = 0.0
    vocabulary: list[str] = field(default_factory=list)

    max_len: int = 64
    step_delay_s: float = 0.0

    def start(self, spec: WorkerSpec) -> None:
        """`spec.config` may hold: refuse (text of a Refusal), break_at (step that raises), hang_at (step that takes
        hang_s longer), start_ and step_delay_s."""
        time.sleep(spec.config.get("start_delay_s", 0.0))
        progress = spec.extra.get("progress")
        if progress is not None:
            progress("scripted", 1, 1)
        if spec.config.get("refuse"):
            raise Refusal(spec.config["refuse"])
        self.break_at = spec.config.get("break_at", -1)
        self.hang_at, self.hang_s = spec.config.get("hang_at", -1), spec.config.get("hang_s", 0.0)
        self.step_delay_s = spec.config.get("step_delay_s", 0.0)

    def geometry(self) -> KVGeometry:
        return self.geometry_

    def max_model_len(self) -> int:
        return self.max_len

    def set_vocabulary(self, tokens: list[str]) -> int:
        """A control call; raises ValueError for an empty list. Returns how many tokens were known before."""
        if not tokens:
            raise ValueError("a vocabulary has tokens")
        before, self.vocabulary = len(self.vocabulary), list(tokens)
        return before

    def forward(self, plan: StepPlan) -> StepPlan:
        if plan.step_id == self.break_at:
            raise RuntimeError("the scripted executor breaks here, as it was told to")
        time.sleep(self.step_delay_s + (self.hang_s if plan.step_id == self.hang_at else 0.0))
        self.plans.append(plan)
        for admitted in plan.admitted:
            tables: list[list[int]] = [[] for _ in self.geometry_.groups]
            self.rows[admitted.slot] = _Row(
                list(admitted.token_ids), admitted.num_computed, tables, admitted.num_prompt, admitted.sampling
            )
        for grant in plan.granted:
            table = self.rows[grant.slot].tables[grant.group]
            assert grant.first <= len(table), "a grant leaves a hole in the block table"
            table[grant.first : grant.first + len(grant.block_ids)] = grant.block_ids
        singles = [row.num_tokens == 1 for row in plan.rows]
        assert singles == sorted(singles, reverse=True), "rows with one token must come first"
        for planned in plan.rows:
            self._compute(self.rows[planned.slot], planned.num_tokens)
        for planned in plan.rows:
            row = self.rows[planned.slot]
            assert row.num_computed == planned.length
            assert planned.samples == (planned.length == len(row.tokens) and row.sampling.max_tokens != 0)
            self._read_back(row, planned.num_tokens)
        prompts = [scores for planned in plan.rows if (scores := self._score(planned)) is not None]
        rows = [self._sample(planned.slot) for planned in plan.rows if planned.samples]
        self.results[plan.step_id] = StepResult(step_id=plan.step_id, rows=rows, prompts=prompts)
        return plan

    def sample(self, handle: StepPlan, inputs: SampleInputs) -> Future[StepResult]:
        future: Future[StepResult] = Future()
        future.set_result(self.results.pop(inputs.step_id))
        return future

    def call(self, method: str, *args: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        return [getattr(self, method)(*args)]

    def health(self) -> str | None:
        return None

    def shutdown(self) -> None:
        self.rows.clear()

    def _compute(self, row: _Row, count: int) -> None:
        tokens = self.geometry_.block_tokens
        for position in range(row.num_computed, row.num_computed + count):
            for table in row.tables:
                block = table[position // tokens]
                assert block != NULL_BLOCK, "a row writes into the null block"
                self.memory[block, position % tokens] = (row.tokens[position], position)
        row.num_computed += count

    def _read_back(self, row: _Row, count: int) -> None:
        tokens = self.geometry_.block_tokens
        for group in self.geometry_.groups:
            window = group.spec.retain.window
            first = 0 if window is None else max(0, row.num_computed - count - window + 1)
            for position in range(first, row.num_computed):
                block = row.tables[group.index][position // tokens]
                assert self.memory[block, position % tokens] == (row.tokens[position], position), "KV was overwritten"

    def _score(self, planned: PlannedRow) -> PromptScores | None:
        """In this world the token at position p has the log probability -p."""
        row = self.rows[planned.slot]
        first = planned.length - planned.num_tokens + 1
        if row.sampling.prompt_logprobs is None or first >= row.num_prompt:
            return None
        places = range(first, min(planned.length + 1, row.num_prompt))
        return PromptScores(planned.slot, first, [TokenLogprobs(row.tokens[at], -float(at), [], []) for at in places])

    def _sample(self, slot: int) -> SampledRow:
        row = self.rows[slot]
        error = self.before_sample(slot, row.tokens)
        token = next_token(row.tokens, self.vocab_size)
        row.tokens.append(token)  # also of a row that failed: the next step may be planned already
        if error is not None:
            return SampledRow(slot, [], None, RowError(error))
        return SampledRow(slot, [token])


def scripted_executor(options: Any) -> ScriptedExecutor:
    """A plugin implementation: 60 blocks of 4 tokens, sequences of up to 64."""
    geometry = KVGeometry(form_groups({"a": KVSpec((KVTensor("k", 1, 8),))}, 4), 60, 4, 16)
    return ScriptedExecutor(geometry)


def scripted_spec(**config: Any) -> EngineSpec:
    """An engine over `scripted_executor`, for clients to start; `config` is what `ScriptedExecutor.start` reads."""
    executor = PinnedPlugin(
        "executors", "scripted", "infer-testkit", "0", "infer_testkit", "infer_testkit.executor:scripted_executor"
    )
    policy = PinnedPlugin(
        "schedulers", "in-turn", "infer-testkit", "0", "infer_testkit", "infer_testkit.fakes.policies:InTurn"
    )
    worker = WorkerSpec("unused:Worker", config, PluginSet((executor, policy)).to_dict())
    return EngineSpec("scripted", worker, max_num_seqs=4, max_num_batched_tokens=16, in_flight=2, policy="in-turn")
