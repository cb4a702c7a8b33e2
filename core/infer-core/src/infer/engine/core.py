"""The engine's loop, as one object that is stepped from one thread."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

import msgspec

from infer.kv.groups import KVGeometry
from infer.kv.prefix import root_key
from infer.scheduler.scheduler import PlannedStep, Scheduler, SchedulerLimits
from infer.scheduler.sequence import Sequence
from infer_api.errors import PluginError, RequestError
from infer_api.executors import Executor
from infer_api.requests import EngineOutput, EngineRequest, EngineStats, FinishReason, RowError, TokenLogprobs
from infer_api.schedulers import Policy
from infer_api.steps import PromptScores, SampledRow, SampleInputs, StepResult

__all__ = ["Engine", "EngineRules"]

_RECENT = 32


@dataclass(frozen=True)
class EngineRules:
    """How many steps are submitted at once, how many requests may wait, and whether prefixes are used again.

    `digest` is part of every prefix key: it stands for the code and weights that computed a block.
    """

    in_flight: int = 1
    max_waiting: int = 4096
    prefix_caching: bool = True
    digest: str = ""


@dataclass(frozen=True)
class _Submitted:
    step: PlannedStep
    result: Future[StepResult]
    at: float


class Engine:
    """Plans steps, keeps `rules.in_flight` of them submitted, and turns their results into outputs.

    Calls come from one thread. `step` blocks until the oldest submitted step is done.
    """

    def __init__(
        self, executor: Executor, geometry: KVGeometry, limits: SchedulerLimits, policy: Policy, rules: EngineRules
    ) -> None:
        self.scheduler = Scheduler(geometry, limits, policy)
        self._executor = executor
        self._rules = rules
        self._submitted: deque[_Submitted] = deque()
        self._live: dict[str, Sequence] = {}
        self._ended_at: deque[float] = deque(maxlen=_RECENT)
        self._retired_at = 0.0
        self._started_s = time.time()
        self._generation = 0  # of the prefix cache: a reset makes the keys of all before it unknown
        self._num_steps = self._num_failed_rows = 0
        self._prompt_tokens = self._generated_tokens = 0

    @property
    def has_work(self) -> bool:
        return bool(self._live or self._submitted)

    def add(self, request: EngineRequest) -> None:
        """Queue a request. Raises RequestError when no state of the engine could ever serve it, or too many wait."""
        limits, geometry = self.scheduler.limits, self.scheduler.geometry
        if not request.prompt_ids:
            raise RequestError("the prompt has no tokens", param="prompt", code="empty_prompt")
        if request.request_id in self._live:
            raise RequestError(f"request id {request.request_id!r} is in use", code="duplicate_request_id", status=409)
        longest = limits.max_model_len - (request.sampling.max_tokens != 0)
        if len(request.prompt_ids) > longest:
            raise RequestError(
                f"the prompt has {len(request.prompt_ids)} tokens; at most {longest} fit the {limits.max_model_len} "
                "that model and KV cache allow (--max-model-len, --kv-cache-memory)",
                param="prompt",
                code="context_length_exceeded",
            )
        num_waiting = len(self.scheduler.waiting) - self.scheduler.num_free_slots
        if num_waiting >= self._rules.max_waiting:
            raise RequestError(
                f"{num_waiting} requests are waiting already (--max-waiting); come back later",
                code="queue_full",
                status=503,
                retry_after_s=self._retry_after_s(),
            )
        sequence = Sequence(request, len(geometry.groups), limits.max_model_len, self._root(request))
        self._live[request.request_id] = sequence
        self._prompt_tokens += sequence.num_prompt
        self.scheduler.add(sequence)

    def reset_cache(self) -> bool:
        """Forget every cached prefix. False when requests run: what they use is forgotten when they end."""
        self._generation += 1
        self.scheduler.pool.forget_all()
        return not self._live

    def abort(self, request_ids: Iterable[str]) -> list[EngineOutput]:
        """End requests wherever they are; unknown ids are ignored."""
        ids = dict.fromkeys(request_ids)
        return [self._end(self._live[each], [], "abort") for each in ids if each in self._live]

    def step(self) -> list[EngineOutput]:
        """Keep the pipeline full, wait for its oldest step, hand out what became known."""
        self._submit()
        if not self._submitted:
            if self._live:
                raise PluginError("requests wait, nothing runs, and the scheduling policy gives none of them a token")
            return []
        oldest = self._submitted.popleft()
        result = oldest.result.result()
        now = time.monotonic()
        seconds = now - max(oldest.at, self._retired_at)
        self.scheduler.pacer.observe(oldest.step.num_prefill, oldest.step.num_decodes, seconds)
        self._retired_at = now
        # An error of status 400 is the request's own: what the model computed for it is sound.
        told = [*((row.slot, row.error) for row in result.rows), *((one.slot, one.error) for one in result.prompts)]
        failed = [slot for slot, error in told if error is not None and error.status >= 500]
        self.scheduler.retire(oldest.step, failed)
        scored = self._take_scores(oldest.step, result) if result.prompts else {}
        return self._advance(oldest.step, result, scored)

    def stats(self) -> EngineStats:
        scheduler = self.scheduler
        geometry = scheduler.geometry
        return EngineStats(
            num_running=len(scheduler.running),
            num_waiting=len(scheduler.waiting),
            num_blocks=geometry.num_usable,
            num_free_blocks=scheduler.pool.num_free,
            num_cached_blocks=scheduler.pool.num_cached,
            block_tokens=geometry.block_tokens,
            capacity_tokens=geometry.total_tokens,
            num_steps=self._num_steps,
            num_preemptions=scheduler.num_preemptions,
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
            cached_tokens=scheduler.num_cached_tokens,
            started_s=self._started_s,
            num_failed_rows=self._num_failed_rows,
        )

    def _root(self, request: EngineRequest) -> bytes | None:
        if not self._rules.prefix_caching:
            return None
        return root_key(f"{self._rules.digest}/{self._generation}", request.adapter, request.cache_salt)

    def _retry_after_s(self) -> float:
        """Seconds until half of the queue is gone, as fast as requests ended lately; at least 1, at most 60."""
        if len(self._ended_at) < 2:
            return 1.0
        per_request = (self._ended_at[-1] - self._ended_at[0]) / (len(self._ended_at) - 1)
        return float(min(60, max(1, math.ceil(len(self.scheduler.waiting) / 2 * per_request))))

    def _submit(self) -> None:
        while len(self._submitted) < self._rules.in_flight:
            step = self.scheduler.plan(self._num_steps)
            if step is None:
                return
            self._num_steps += 1
            at = time.monotonic()
            handle = self._executor.forward(step.plan)
            result = self._executor.sample(handle, SampleInputs(step_id=step.plan.step_id))
            self._submitted.append(_Submitted(step, result, at))

    def _take_scores(self, step: PlannedStep, result: StepResult) -> dict[int, list[TokenLogprobs | None]]:
        """New scores of prompts by slot; what was scored before a preemption is not told again."""
        owners = {row.slot: owner for owner, row in zip(step.owners, step.plan.rows, strict=True)}
        return {scores.slot: _unseen(scores, *owners[scores.slot]) for scores in result.prompts}

    def _advance(
        self, step: PlannedStep, result: StepResult, scored: dict[int, list[TokenLogprobs | None]]
    ) -> list[EngineOutput]:
        drawn = iter(result.rows)
        errors = {scores.slot: scores.error for scores in result.prompts if scores.error is not None}
        outputs = []
        for (sequence, epoch), row in zip(step.owners, step.plan.rows, strict=True):
            sampled = next(drawn) if row.samples else None
            if sequence.is_finished or sequence.epoch != epoch:
                continue  # ended or preempted while the step was under way; a preempted row draws it again
            output = self._take(sequence, sampled, scored.get(row.slot), errors.get(row.slot))
            if output is not None:
                outputs.append(output)
        return outputs

    def _take(
        self,
        sequence: Sequence,
        row: SampledRow | None,
        scores: list[TokenLogprobs | None] | None,
        error: RowError | None,
    ) -> EngineOutput | None:
        """What a step gave a sequence: scores of its prompt, and tokens up to the one that ends it."""
        error = error or (row.error if row is not None else None)
        if error is not None:
            self._num_failed_rows += 1
            return self._end(sequence, [], "error", error=error)
        if row is None:
            if sequence.scores_only and sequence.num_computed == sequence.target:
                return self._end(sequence, [], "length", scores=scores)
            return self._output(sequence, [], scores=scores) if scores else None
        for count, token_id in enumerate(row.token_ids, start=1):
            sequence.token_ids.append(token_id)
            self._generated_tokens += 1
            reason, stop_id = self._why_ended(sequence, token_id)
            if reason is not None:
                return self._end(sequence, row.token_ids[:count], reason, stop_id=stop_id, row=row, scores=scores)
        return self._output(sequence, row.token_ids, row=row, scores=scores)

    def _why_ended(self, sequence: Sequence, token_id: int) -> tuple[FinishReason | None, int | None]:
        if token_id in sequence.end_ids:
            return "stop", token_id
        is_long = len(sequence.token_ids) >= self.scheduler.limits.max_model_len
        if is_long or sequence.num_generated == sequence.request.sampling.max_tokens:
            return "length", None
        return None, None

    def _end(
        self,
        sequence: Sequence,
        token_ids: list[int],
        reason: FinishReason,
        *,
        stop_id: int | None = None,
        error: RowError | None = None,
        row: SampledRow | None = None,
        scores: list[TokenLogprobs | None] | None = None,
    ) -> EngineOutput:
        self.scheduler.remove(sequence)
        del self._live[sequence.request.request_id]
        self._ended_at.append(time.monotonic())
        output = self._output(sequence, token_ids, row=row, scores=scores)
        return msgspec.structs.replace(output, finish_reason=reason, stop_token_id=stop_id, error=error)

    def _output(
        self,
        sequence: Sequence,
        token_ids: list[int],
        *,
        row: SampledRow | None = None,
        scores: list[TokenLogprobs | None] | None = None,
    ) -> EngineOutput:
        """Outputs of a request; the first one tells how it came to run."""
        if sequence.request.sampling.prompt_logprobs is not None and sequence.num_scored == 0 and sequence.num_computed:
            sequence.num_scored, scores = 1, [None, *(scores or [])]
        told, queued_s = sequence.is_told, sequence.queued_s
        sequence.is_told = told or queued_s is not None
        return EngineOutput(
            request_id=sequence.request.request_id,
            token_ids=token_ids,
            logprobs=row.logprobs[: len(token_ids)] if row is not None and row.logprobs is not None else None,
            num_cached_tokens=sequence.num_cached,
            queued_s=None if told else queued_s,
            prompt_logprobs=scores or None,
        )


def _unseen(scores: PromptScores, sequence: Sequence, epoch: int) -> list[TokenLogprobs | None]:
    if sequence.epoch != epoch or sequence.is_finished:
        return []
    first = max(1, sequence.num_scored)  # the first token of a prompt has no score, only a place
    fresh: list[TokenLogprobs | None] = list(scores.entries[max(0, first - scores.first) :])
    if sequence.num_scored == 0:
        fresh.insert(0, None)
    sequence.num_scored = max(sequence.num_scored, scores.first + len(scores.entries))
    return fresh
