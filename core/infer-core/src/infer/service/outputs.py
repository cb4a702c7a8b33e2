"""`TextPipeline`: prompts × n choices → engine requests → one stream of events."""

from __future__ import annotations

import itertools
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence

import msgspec

from infer.service.choice import ChoiceStream
from infer.service.merge import StreamMerger
from infer.service.validate import SEED_MODULUS, check_sampling
from infer_api.errors import EngineDeadError, InferError, RequestError
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.services import (
    Choice,
    EngineClient,
    Event,
    Finished,
    Limits,
    ModelCard,
    Rendered,
    Reply,
    TextDelta,
    Usage,
)
from infer_api.tokenizers import Tokenizer

__all__ = ["TextPipeline"]


class TextPipeline:
    """The `OutputPipeline` of one model and engine.

    `seed` is for requests that bring none (None: each draws its own); choice i of a prompt runs with seed + i.
    `notify(hook, **facts)` tells hooks of requests. Engine requests get ids of ours: a client's id may be in use twice.
    """

    def __init__(
        self,
        engine: EngineClient,
        tokenizer: Tokenizer | None,
        card: ModelCard,
        limits: Limits,
        *,
        eos_ids: Sequence[int] = (),
        seed: int | None = None,
        notify: Callable[..., object] | None = None,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._card = card
        self._limits = limits
        self._eos_ids = tuple(eos_ids)
        self._seed = seed
        self._notify = notify or _tell_nobody
        self._ids = (f"{secrets.token_hex(4)}-{number}" for number in itertools.count())

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        checked = check_sampling(sampling, self._card, self._limits, prompts)
        ends = {*checked.stop_token_ids, *(() if checked.ignore_eos else self._eos_ids)}
        if checked.min_tokens and sum(each < self._card.vocab_size for each in ends) == self._card.vocab_size:
            message = "min_tokens forbids every token: stop_token_ids hold the whole vocabulary; send fewer of them"
            raise RequestError(message, param="stop_token_ids")
        if checked.stop and self._tokenizer is None:
            return msgspec.structs.replace(checked, stop=())  # nothing is ever decoded, so nothing can match
        return checked

    async def stream(
        self, prompts: Sequence[Rendered], sampling: SamplingParams, *, request_id: str
    ) -> AsyncGenerator[Event, None]:
        requests = [self._request(prompt, sampling, i) for prompt in prompts for i in range(sampling.n)]
        choices = [ChoiceStream(index, request, self._tokenizer) for index, request in enumerate(requests)]
        for request in requests:
            self._notify(
                "infer_request_received", request_id=request.request_id, num_prompt_tokens=len(request.prompt_ids)
            )
        merger = StreamMerger([self._engine.generate(request) for request in requests])
        reason_of_rest = "abort"
        try:
            while (item := await merger.next()) is not None:
                choice = choices[item[0]]
                for event in choice.feed(item[1]):
                    yield event
                if choice.is_finished:
                    await merger.drop(choice.index)
            _refuse_unfinished(choices)
            yield _usage(prompts, choices, sampling.n)
        except InferError:
            reason_of_rest = "error"
            raise
        finally:
            await merger.close()
            self._tell_finished(choices, reason_of_rest)

    async def collect(self, events: AsyncIterator[Event]) -> Reply:
        deltas: dict[int, list[TextDelta]] = defaultdict(list)
        ends: dict[int, Finished] = {}
        usage: Usage | None = None
        try:
            async for event in events:
                if isinstance(event, TextDelta):
                    deltas[event.index].append(event)
                elif isinstance(event, Finished):
                    ends[event.index] = event
                else:
                    usage = event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        assert usage is not None, "a stream of events ended without its usage"
        return Reply(tuple(_join(ends[index], deltas[index]) for index in sorted(ends)), usage)

    def _request(self, prompt: Rendered, sampling: SamplingParams, choice: int) -> EngineRequest:
        seed = sampling.seed if sampling.seed is not None else self._seed
        room = self._card.max_model_len - len(prompt.prompt_ids)
        resolved = msgspec.structs.replace(
            sampling,
            n=1,
            seed=secrets.randbelow(SEED_MODULUS) if seed is None else (seed + choice) % SEED_MODULUS,
            max_tokens=room if sampling.max_tokens is None else min(room, sampling.max_tokens),
        )
        return EngineRequest(
            request_id=next(self._ids),
            prompt_ids=list(prompt.prompt_ids),
            sampling=resolved,
            eos_ids=self._eos_ids,
            vocab_size=self._card.vocab_size,
            arrival_s=time.time(),
        )

    def _tell_finished(self, choices: Sequence[ChoiceStream], reason_of_rest: str) -> None:
        for choice in choices:
            self._notify(
                "infer_request_finished",
                request_id=choice.request_id,
                finish_reason=choice.finish_reason if choice.is_finished else reason_of_rest,
                num_generated_tokens=choice.num_tokens,
            )


def _usage(prompts: Sequence[Rendered], choices: Sequence[ChoiceStream], n: int) -> Usage:
    return Usage(
        prompt_tokens=sum(len(prompt.prompt_ids) for prompt in prompts),
        completion_tokens=sum(choice.num_tokens for choice in choices),
        # Of the first choice of each prompt: the others may find what that one has just left behind.
        cached_tokens=sum(choice.num_cached_tokens for choice in choices[::n]),
    )


def _refuse_unfinished(choices: Sequence[ChoiceStream]) -> None:
    lost = [choice.request_id for choice in choices if not choice.is_finished]
    if lost:
        raise EngineDeadError(f"the engine stopped answering before these requests had ended: {', '.join(lost)}")


def _join(end: Finished, deltas: Sequence[TextDelta]) -> Choice:
    return Choice(
        index=end.index,
        text="".join(delta.text for delta in deltas),
        finish_reason=end.reason,
        stop_reason=end.stop_reason,
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
    )


def _tell_nobody(hook: str, **facts: object) -> None:
    """For pipelines without hooks."""
