"""`TextPipeline`: prompts × n choices → engine requests → one stream of events."""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

import msgspec

from infer.service.choice import ChoiceStream
from infer.service.merge import StreamMerger
from infer.service.processors import CheckParameters
from infer.service.record import ChoiceLog, Notify
from infer.service.validate import SEED_MODULUS, check_sampling
from infer.service.vocabulary import VocabularySender
from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.services import (
    Choice,
    EngineClient,
    Event,
    Finished,
    Limits,
    ModelCard,
    PromptScored,
    Rendered,
    Reply,
    TextDelta,
    Usage,
)
from infer_api.tokenizers import Tokenizer

__all__ = ["TextPipeline"]

_log = logging.getLogger(__name__)


class TextPipeline:
    """The `OutputPipeline` of one model and engine.

    `seed` is for requests that bring none (None: each draws its own); choice i of a prompt runs with seed + i.
    `notify(hook, **facts)` tells hooks of requests. Engine requests get ids of ours: a client's id may be in use twice.
    `processors` are those that requests may ask for; where the policy does not heed priorities, none but 0 is taken.
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
        notify: Notify | None = None,
        processors: Mapping[str, CheckParameters] | None = None,
        heeds_priority: bool = False,
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._card = card
        self._limits = limits
        self._eos_ids = tuple(eos_ids)
        self._seed = seed
        self._notify = notify or _tell_nobody
        self._processors = processors or {}
        self._heeds_priority = heeds_priority
        self._vocabulary = VocabularySender(engine, tokenizer, card.vocab_size) if tokenizer is not None else None
        self._ids = (f"{secrets.token_hex(4)}-{number}" for number in itertools.count())

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        checked = check_sampling(sampling, self._card, self._limits, prompts, self._processors)
        self._check_possible(checked)
        if not self._heeds_priority and any(prompt.priority for prompt in prompts):
            message = "priority is not heeded by this server's scheduling policy; leave it out (--scheduling-policy)"
            raise RequestError(message, param="priority", code="unsupported_parameter")
        if checked.bad_words and self._tokenizer is None:
            message = "bad_words need a tokenizer, and this model has none; start with --tokenizer FILE"
            raise RequestError(message, param="bad_words", code="no_tokenizer")
        if checked.stop and self._tokenizer is None:
            return msgspec.structs.replace(checked, stop=())  # nothing is ever decoded, so nothing can match
        return checked

    def _check_possible(self, sampling: SamplingParams) -> None:
        """Refuse what leaves no token to begin with: before `min_tokens` none may come that would end the text."""
        eos_ids = set(() if sampling.ignore_eos else self._eos_ids)
        ends = eos_ids.union(sampling.stop_token_ids)
        allowed = sampling.allowed_token_ids
        possible = range(self._card.vocab_size) if allowed is None else allowed
        if not sampling.min_tokens or any(token_id not in ends for token_id in possible):
            return
        param, what = ("stop_token_ids", "the vocabulary") if allowed is None else ("allowed_token_ids", "them")
        if any(token_id not in eos_ids for token_id in possible):
            advice = "send fewer stop_token_ids"
        else:  # also without those that were sent, if any
            advice = "allow another token, or send ignore_eos"
        raise RequestError(f"min_tokens forbids every token: all of {what} would end the text; {advice}", param=param)

    async def stream(
        self,
        prompts: Sequence[Rendered],
        sampling: SamplingParams,
        *,
        request_id: str,
        client_id: str = "",
        traceparent: str = "",
    ) -> AsyncGenerator[Event, None]:
        requests = [self._request(prompt, sampling, i) for prompt in prompts for i in range(sampling.n)]
        choices = [ChoiceStream(index, request, self._tokenizer) for index, request in enumerate(requests)]
        names = {"call_id": request_id, "client_id": client_id, "model": self._card.id, "traceparent": traceparent}
        logs = [ChoiceLog(request, names, self._notify) for request in requests]
        merger = StreamMerger([self._engine.generate(request) for request in requests])
        is_asking = False
        reason, fault = "abort", None  # of the choices that will not have ended by themselves
        try:
            if sampling.bad_words and self._vocabulary is not None:
                await self._vocabulary.send()
            while True:
                is_asking = True
                item = await merger.next()
                is_asking = False
                if item is None:
                    break
                choice, log = choices[item[0]], logs[item[0]]
                log.heard(item[1])
                events = choice.feed(item[1])
                if choice.is_finished:
                    log.end(choice.finish_reason, choice.num_tokens, choice.num_cached_tokens)
                for event in events:
                    yield event
                if choice.is_finished:
                    await merger.drop(choice.index)
            _refuse_unfinished(choices)
            yield _usage(prompts, choices, sampling.n)
        except Exception as error:
            reason = "rejected" if is_asking and isinstance(error, RequestError) else "error"
            told, fault = _told(error, request_id, client_id)
            if told is error:
                raise
            raise told from error
        finally:
            for choice, log in zip(choices, logs, strict=True):  # before anything that may be cancelled
                log.end(reason, choice.num_tokens, choice.num_cached_tokens, fault)
            await merger.close()

    async def collect(self, events: AsyncIterator[Event]) -> Reply:
        deltas: dict[int, list[TextDelta]] = defaultdict(list)
        prompts: dict[int, PromptScored] = {}
        ends: dict[int, Finished] = {}
        usage: Usage | None = None
        try:
            async for event in events:
                if isinstance(event, TextDelta):
                    deltas[event.index].append(event)
                elif isinstance(event, PromptScored):
                    prompts[event.index] = event
                elif isinstance(event, Finished):
                    ends[event.index] = event
                else:
                    usage = event
        finally:
            if isinstance(events, AsyncGenerator):
                await events.aclose()
        assert usage is not None, "a stream of events ended without its usage"
        return Reply(tuple(_join(ends[index], deltas[index], prompts.get(index)) for index in sorted(ends)), usage)

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
            priority=prompt.priority,
            arrival_s=time.time(),
            cache_salt=prompt.cache_salt,
        )


def _told(error: Exception, request_id: str, client_id: str) -> tuple[Exception, tuple[str, str]]:
    """The error that the caller gets, with its (code, message): a failure of ours is logged and not spelled out."""
    if isinstance(error, RequestError):
        return error, (error.code, error.message)
    if isinstance(error, EngineDeadError):
        return error, ("engine_dead", str(error))
    extra = {"request_id": client_id or request_id}
    _log.error("request %s failed: %r", request_id, error, exc_info=error, extra=extra)
    message = f"the server failed on this request; its log says more under {request_id}"
    return RequestError(message, code="internal_error", status=500), ("internal_error", repr(error))


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


def _join(end: Finished, deltas: Sequence[TextDelta], prompt: PromptScored | None) -> Choice:
    return Choice(
        index=end.index,
        text="".join(delta.text for delta in deltas),
        finish_reason=end.reason,
        stop_reason=end.stop_reason,
        tokens=tuple(token for delta in deltas for token in delta.tokens),
        token_ids=tuple(token_id for delta in deltas for token_id in delta.token_ids),
        prompt_tokens=prompt.tokens if prompt is not None else None,
    )


def _tell_nobody(hook: str, **facts: object) -> None:
    """For pipelines without hooks."""
