"""The engine's loop, as one object that is stepped from one thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future
from dataclasses import dataclass

from infer.kv.groups import KVGeometry
from infer.scheduler.scheduler import PlannedStep, Scheduler, SchedulerLimits
from infer.scheduler.sequence import Sequence
from infer_api.errors import RequestError
from infer_api.executors import Executor
from infer_api.requests import EngineOutput, EngineRequest, EngineStats, FinishReason
from infer_api.steps import SampledRow, SampleInputs, StepResult

__all__ = ["Engine"]


@dataclass(frozen=True)
class _Submitted:
    step: PlannedStep
    result: Future[StepResult]


class Engine:
    """Plans steps, keeps `in_flight` of them submitted, and turns their results into outputs.

    Calls come from one thread. `step` blocks until the oldest submitted step is done.
    """

    def __init__(self, executor: Executor, geometry: KVGeometry, limits: SchedulerLimits, *, in_flight: int) -> None:
        self.scheduler = Scheduler(geometry, limits)
        self._executor = executor
        self._in_flight = in_flight
        self._submitted: deque[_Submitted] = deque()
        self._live: dict[str, Sequence] = {}
        self._num_steps = 0
        self._prompt_tokens = 0
        self._generated_tokens = 0

    @property
    def has_work(self) -> bool:
        return bool(self._live or self._submitted)

    def add(self, request: EngineRequest) -> None:
        """Queue a request. Raises RequestError when no state of the engine could ever serve it."""
        limits, geometry = self.scheduler.limits, self.scheduler.geometry
        if not request.prompt_ids:
            raise RequestError("the prompt has no tokens", param="prompt", code="empty_prompt")
        if request.request_id in self._live:
            raise RequestError(f"request id {request.request_id!r} is in use", code="duplicate_request_id", status=409)
        if len(request.prompt_ids) >= limits.max_model_len:
            raise RequestError(
                f"the prompt has {len(request.prompt_ids)} tokens; with one token to generate at most "
                f"{limits.max_model_len} fit (--max-model-len)",
                param="prompt",
                code="context_length_exceeded",
            )
        sequence = Sequence(request, len(geometry.groups))
        self._live[request.request_id] = sequence
        self._prompt_tokens += sequence.num_prompt
        self.scheduler.add(sequence)

    def abort(self, request_ids: Iterable[str]) -> list[EngineOutput]:
        """End requests wherever they are; unknown ids are ignored."""
        ids = dict.fromkeys(request_ids)
        return [self._end(self._live[each], [], "abort") for each in ids if each in self._live]

    def step(self) -> list[EngineOutput]:
        """Keep the pipeline full, wait for its oldest step, hand out what became known."""
        self._submit()
        if not self._submitted:
            assert not self._live, "requests are queued, nothing runs, and none of them can be planned"
            return []
        oldest = self._submitted.popleft()
        result = oldest.result.result()
        self.scheduler.retire(oldest.step)
        return self._advance(oldest.step, result)

    def stats(self) -> EngineStats:
        scheduler = self.scheduler
        geometry = scheduler.geometry
        return EngineStats(
            num_running=len(scheduler.running),
            num_waiting=len(scheduler.waiting),
            num_blocks=geometry.num_usable,
            num_free_blocks=scheduler.pool.num_free,
            block_tokens=geometry.block_tokens,
            capacity_tokens=geometry.total_tokens,
            num_steps=self._num_steps,
            num_preemptions=scheduler.num_preemptions,
            prompt_tokens=self._prompt_tokens,
            generated_tokens=self._generated_tokens,
        )

    def _submit(self) -> None:
        while len(self._submitted) < self._in_flight:
            step = self.scheduler.plan(self._num_steps)
            if step is None:
                return
            self._num_steps += 1
            handle = self._executor.forward(step.plan)
            result = self._executor.sample(handle, SampleInputs(step_id=step.plan.step_id))
            self._submitted.append(_Submitted(step, result))

    def _advance(self, step: PlannedStep, result: StepResult) -> list[EngineOutput]:
        sampling = [owner for owner, row in zip(step.owners, step.plan.rows, strict=True) if row.samples]
        outputs = []
        for (sequence, epoch), row in zip(sampling, result.rows, strict=True):
            if sequence.is_finished or sequence.epoch != epoch:
                continue  # ended or preempted while the step was under way; a preempted row draws it again
            sequence.num_in_flight -= 1
            outputs.append(self._take(sequence, row))
        return outputs

    def _take(self, sequence: Sequence, row: SampledRow) -> EngineOutput:
        """Append the tokens that a step drew, up to the one that ends the sequence."""
        if row.error is not None:
            return self._end(sequence, [], "error", error=row.error)
        for count, token_id in enumerate(row.token_ids, start=1):
            sequence.token_ids.append(token_id)
            self._generated_tokens += 1
            reason, stop_id = self._why_ended(sequence, token_id)
            if reason is not None:
                return self._end(sequence, row.token_ids[:count], reason, stop_id=stop_id, row=row)
        return EngineOutput(request_id=sequence.request.request_id, token_ids=row.token_ids, logprobs=row.logprobs)

    def _why_ended(self, sequence: Sequence, token_id: int) -> tuple[FinishReason | None, int | None]:
        request, sampling = sequence.request, sequence.request.sampling
        if token_id in sampling.stop_token_ids or (not sampling.ignore_eos and token_id in request.eos_ids):
            return "stop", token_id
        if (
            sequence.num_generated == sampling.max_tokens
            or len(sequence.token_ids) >= self.scheduler.limits.max_model_len
        ):
            return "length", None
        return None, None

    def _end(
        self,
        sequence: Sequence,
        token_ids: list[int],
        reason: FinishReason,
        *,
        stop_id: int | None = None,
        error: str | None = None,
        row: SampledRow | None = None,
    ) -> EngineOutput:
        self.scheduler.remove(sequence)
        del self._live[sequence.request.request_id]
        return EngineOutput(
            request_id=sequence.request.request_id,
            token_ids=token_ids,
            logprobs=row.logprobs[: len(token_ids)] if row is not None and row.logprobs is not None else None,
            finish_reason=reason,
            stop_token_id=stop_id,
            error=error,
        )
