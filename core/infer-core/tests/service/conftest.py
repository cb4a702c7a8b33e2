"""A scripted engine: a real implementation of the EngineClient contract that plays back token ids."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import pytest

from infer.service.outputs import TextPipeline
from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats, RowError, TokenLogprobs
from infer_api.services import Limits, ModelCard, Rendered


@dataclass
class Script:
    """What the engine says to one request: `steps` of new ids; ends by eos, stop id, max_tokens, or as `end` says.

    Scores of the prompt, where asked for, come before them in chunks of `scored` tokens.
    """

    steps: list[list[int]]
    end: str | None = "length"
    error: RowError | None = None
    refusal: RequestError | None = None
    scored: int = 1000
    logprob: float = -0.5
    top: list[tuple[int, float]] = field(default_factory=list)
    dies: str | None = None
    cached: int = 0


class ScriptedEngine:
    """Scripts by prompt ids, else one script per request in order of arrival."""

    def __init__(self, *scripts: Script, by_prompt: dict[tuple[int, ...], Script] | None = None) -> None:
        self.scripts, self.by_prompt = list(scripts), by_prompt or {}
        self.requests: list[EngineRequest] = []
        self.aborted: list[str] = []
        self.running: set[str] = set()
        self.controls: list[tuple[str, dict]] = []
        self.is_closed = False

    async def generate(self, request: EngineRequest):
        assert request.request_id not in self.running, "request ids are unique"
        self.requests.append(request)
        script = self.by_prompt.get(tuple(request.prompt_ids)) or self.scripts.pop(0)
        if script.refusal is not None:
            raise script.refusal
        self.running.add(request.request_id)
        finished = False
        try:
            async for output in self._play(request, script):
                finished = output.finish_reason is not None
                yield output
        finally:
            self.running.discard(request.request_id)
            if not finished:
                self.aborted.append(request.request_id)

    async def _play(self, request: EngineRequest, script: Script):
        sampling, count = request.sampling, 0
        is_first = True
        for output in self._scores(request, script):
            yield output
            if output.finish_reason is not None:
                return
            is_first = False
        for number, step in enumerate(script.steps):
            await asyncio.sleep(0)
            ids: list[int] = []
            reason, stop_id = None, None
            for token_id in step:
                ids.append(token_id)
                count += 1
                ends = token_id in sampling.stop_token_ids or (not sampling.ignore_eos and token_id in request.eos_ids)
                if ends or count == sampling.max_tokens:
                    reason, stop_id = ("stop", token_id) if ends else ("length", None)
                    break
            if reason is None and number == len(script.steps) - 1 and script.dies is None:
                reason = script.end
            logprobs = [self._logprobs(script, token_id) for token_id in ids] if sampling.logprobs is not None else None
            yield EngineOutput(
                request_id=request.request_id,
                token_ids=ids,
                logprobs=logprobs,
                finish_reason=reason,
                stop_token_id=stop_id,
                error=script.error,
                num_cached_tokens=script.cached,
                queued_s=0.25 if is_first else None,
            )
            is_first = False
            if reason is not None:
                return
        if script.dies is not None:
            raise EngineDeadError(script.dies)
        await asyncio.Event().wait()  # a script without an end: the engine goes quiet

    def _scores(self, request: EngineRequest, script: Script):
        if request.sampling.prompt_logprobs is None:
            return
        entries = [None, *(self._logprobs(script, token_id) for token_id in request.prompt_ids[1:])]
        for at in range(0, len(entries), script.scored):
            ends = at + script.scored >= len(entries) and request.sampling.max_tokens == 0
            yield EngineOutput(
                request_id=request.request_id,
                prompt_logprobs=entries[at : at + script.scored],
                finish_reason="length" if ends else None,
                queued_s=None if at else 0.25,
            )

    def _logprobs(self, script: Script, token_id: int) -> TokenLogprobs:
        return TokenLogprobs(
            token_id, script.logprob, [one for one, _ in script.top], [value for _, value in script.top]
        )

    async def abort(self, request_ids) -> None:
        self.aborted.extend(request_ids)

    async def stats(self) -> EngineStats:
        return EngineStats(
            **{
                **dict.fromkeys(EngineStats.__struct_fields__, 0),
                "num_running": len(self.running),
                "capacity_tokens": 128,
            }
        )

    async def reset_cache(self) -> bool:
        return not self.running

    async def control(self, name: str, **args):
        await asyncio.sleep(0)
        self.controls.append((name, args))

    async def health(self) -> EngineHealth:
        return EngineHealth(ready=not self.is_closed)

    async def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def script() -> type[Script]:
    return Script


@pytest.fixture
def scripted_engine() -> type[ScriptedEngine]:
    return ScriptedEngine


@pytest.fixture
def limits() -> Limits:
    return Limits(
        max_body_bytes=2**20,
        max_n=8,
        max_logprobs=5,
        max_stop=4,
        max_logit_bias=3,
        max_prompts=4,
        max_bad_words=3,
        max_token_ids=50,
        max_sequences=20,
        max_prompt_tokens=None,
        max_json_depth=100,
    )


@pytest.fixture
def card(byte_tokenizer) -> ModelCard:
    return ModelCard(
        id="tiny",
        aliases=(),
        max_model_len=64,
        vocab_size=byte_tokenizer.vocab_size,
        created_s=int(time.time()),
        has_chat_template=True,
    )


@pytest.fixture
def pipeline(byte_tokenizer, card, limits):
    """Makes a TextPipeline over an engine; `eos` is <|im_end|>, id 1."""

    def make(engine: ScriptedEngine, **fields) -> TextPipeline:
        tokenizer, bounds = fields.pop("tokenizer", byte_tokenizer), fields.pop("limits", limits)
        return TextPipeline(engine, tokenizer, card, bounds, eos_ids=(1,), **fields)

    return make


@pytest.fixture
def prompt(byte_tokenizer):
    """Makes a Rendered of a text."""

    def make(text: str, param: str = "prompt") -> Rendered:
        return Rendered(tuple(byte_tokenizer.encode(text)), text, param)

    return make
