"""`LLM`: the engine in this process, for scripts and notebooks. Same pipeline as the server, without HTTP."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from infer.service.background import BackgroundLoop
from infer_api.errors import ConfigError, EngineDeadError
from infer_api.requests import EngineStats, SamplingParams
from infer_api.services import Choice, Rendered, Reply, ReplyFinish, Services, TextDelta, TokenText
from infer_api.tokenizers import Tokenizer

if TYPE_CHECKING:
    from infer.config.sections import InferConfig
    from infer.plugins.discovery import PluginIndex

__all__ = ["LLM", "Completion", "CompletionOutput"]

Message = Mapping[str, Any]
Sampling = SamplingParams | Sequence[SamplingParams] | None


@dataclass(frozen=True)
class CompletionOutput:
    """One answer. `token_ids` include the token that ended it; `logprobs` is empty unless asked for."""

    index: int
    text: str
    token_ids: tuple[int, ...]
    finish_reason: ReplyFinish
    stop_reason: str | int | None
    logprobs: tuple[TokenText, ...]


@dataclass(frozen=True)
class Completion:
    """One prompt with its `n` answers. `prompt` is None when token ids were given.

    `prompt_logprobs`, where asked for, has one entry per token of the prompt; the `logprob` of the first is None.
    """

    prompt: str | None
    prompt_token_ids: tuple[int, ...]
    outputs: tuple[CompletionOutput, ...]
    num_cached_tokens: int
    prompt_logprobs: tuple[TokenText, ...] | None = None

    @property
    def text(self) -> str:
        """Text of the first answer."""
        return self.outputs[0].text


class LLM:
    """A model, ready to generate. Calls block; they may come from several threads.

    `model` is a folder, a file, an alias, or a name that a source serves. `options` are options of the configuration,
    by path or by the words of a flag (`max_model_len=2048`, `kv_cache_memory="1GiB"`, `attention="torch"`). Raises
    InferError when the model cannot be started. Close it, or use it in a `with` block.
    """

    _opened: AbstractAsyncContextManager[Services] | None

    def __init__(self, model: str | os.PathLike[str] = "auto", **options: Any) -> None:
        from infer.plugins.discovery import discover
        from infer.service.options import config_from_options

        index = discover()
        config = config_from_options(index, {"model.name": os.fspath(model), **options})
        self._start(_opener(config, index))

    @classmethod
    def from_services(cls, open_: Callable[[], AbstractAsyncContextManager[Services]]) -> LLM:
        """An LLM over services that `open_` starts, on the LLM's own event loop."""
        llm = cls.__new__(cls)
        llm._start(open_)
        return llm

    def generate(
        self,
        prompts: str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]],
        sampling: Sampling = None,
    ) -> list[Completion]:
        """Continue each prompt (text or token ids). One Completion per prompt, in order.

        `sampling`: one for all, one per prompt, or None for the checkpoint's own defaults. Raises RequestError for
        wrong parameters, before anything runs.
        """
        is_one = isinstance(prompts, str) or _is_ids(prompts) or not isinstance(prompts, Sequence)
        listed = [prompts] if is_one else list(prompts)
        renderer = self._services.renderer
        return self._run_all([renderer.text(prompt) for prompt in listed], sampling)  # type: ignore[arg-type]

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        sampling: Sampling = None,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        template_options: Mapping[str, Any] | None = None,
    ) -> list[Completion]:
        """Answer a conversation, or each of a list of conversations. One Completion per conversation, in order."""
        is_one = not isinstance(messages, Sequence) or (bool(messages) and isinstance(messages[0], Mapping))
        conversations: Sequence[Any] = [messages] if is_one else messages
        renderer = self._services.renderer
        return self._run_all([renderer.chat(each, tools, template_options) for each in conversations], sampling)

    def stream(
        self, prompt: str | Sequence[int] | Sequence[Message], sampling: SamplingParams | None = None
    ) -> Iterator[str]:
        """Text of one answer as it comes. A list of messages is a chat. Leaving the iterator ends the generation."""
        renderer = self._services.renderer
        if isinstance(prompt, str) or _is_ids(prompt):
            rendered = renderer.text(prompt)  # type: ignore[arg-type]
        else:
            rendered = renderer.chat(prompt)  # type: ignore[arg-type]
        (params,) = self._each_sampling([rendered], sampling)
        return self._loop.iterate(self._deltas(rendered, params))

    @property
    def tokenizer(self) -> Tokenizer | None:
        return self._services.renderer.tokenizer  # type: ignore[attr-defined]

    @property
    def default_sampling(self) -> SamplingParams:
        """What `sampling=None` means: the checkpoint's recommended values."""
        return SamplingParams(**self._services.models[0].defaults)

    def stats(self) -> EngineStats:
        return self._loop.run(self._services.engine.stats())

    def close(self) -> None:
        """Stop the engine and free its memory. Doing it twice is fine."""
        self._opened = None
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start(self, open_: Callable[[], AbstractAsyncContextManager[Services]]) -> None:
        self._loop = BackgroundLoop()
        self._opened = opened = open_()
        try:
            self._ready = self._loop.run(_enter(opened))
        except BaseException:
            self._loop.close()
            raise
        # An LLM that is dropped without `close` must not leave its engine and model behind.
        self._end = weakref.finalize(self, _end, self._loop, opened)

    @property
    def _services(self) -> Services:
        if self._opened is None:
            raise EngineDeadError("this LLM has been closed; make a new one")
        return self._ready

    def _run_all(self, prompts: Sequence[Rendered], sampling: Sampling) -> list[Completion]:
        each = self._each_sampling(prompts, sampling)
        return self._loop.run(self._gather(prompts, each))

    def _each_sampling(self, prompts: Sequence[Rendered], sampling: Sampling) -> list[SamplingParams]:
        if sampling is None:
            sampling = self.default_sampling
        each = list(sampling) if isinstance(sampling, Sequence) else [sampling] * len(prompts)
        if strange := [params for params in each if not isinstance(params, SamplingParams)]:
            raise ConfigError(f"sampling must be SamplingParams(...) or a list of them, found {strange[0]!r:.60}")
        if len(each) != len(prompts):
            raise ConfigError(f"{len(prompts)} prompts came with {len(each)} sampling parameters; give one or as many")
        outputs = self._services.outputs
        return [outputs.check([prompt], params) for prompt, params in zip(prompts, each, strict=True)]

    async def _gather(self, prompts: Sequence[Rendered], each: Sequence[SamplingParams]) -> list[Completion]:
        tasks = [
            asyncio.ensure_future(self._complete(prompt, params)) for prompt, params in zip(prompts, each, strict=True)
        ]
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _complete(self, prompt: Rendered, params: SamplingParams) -> Completion:
        outputs = self._services.outputs
        reply = await outputs.collect(outputs.stream([prompt], params, request_id="llm"))
        return _completion(prompt, reply)

    async def _deltas(self, prompt: Rendered, params: SamplingParams) -> AsyncGenerator[str, None]:
        events: Any = self._services.outputs.stream([prompt], params, request_id="llm")
        async with aclosing(events):
            async for event in events:
                if isinstance(event, TextDelta) and event.index == 0 and event.text:
                    yield event.text


def _opener(config: InferConfig, index: PluginIndex) -> Callable[[], AbstractAsyncContextManager[Services]]:
    from infer.service.assemble import open_services

    return lambda: open_services(config, index, inline=True)


def _is_ids(prompt: object) -> bool:
    return isinstance(prompt, Sequence) and len(prompt) > 0 and isinstance(prompt[0], int)


def _completion(prompt: Rendered, reply: Reply) -> Completion:
    outputs = tuple(map(_output, reply.choices))
    scores = reply.choices[0].prompt_tokens
    return Completion(prompt.text, prompt.prompt_ids, outputs, reply.usage.cached_tokens, scores)


def _output(choice: Choice) -> CompletionOutput:
    return CompletionOutput(
        index=choice.index,
        text=choice.text,
        token_ids=choice.token_ids,
        finish_reason=choice.finish_reason,
        stop_reason=choice.stop_reason,
        logprobs=choice.tokens,
    )


async def _enter(opened: AbstractAsyncContextManager[Services]) -> Services:
    return await opened.__aenter__()


async def _exit(opened: AbstractAsyncContextManager[Services]) -> None:
    await opened.__aexit__(None, None, None)


def _end(loop: BackgroundLoop, opened: AbstractAsyncContextManager[Services]) -> None:
    if loop.is_here:  # the garbage collector may run anywhere
        loop.spawn(_exit(opened))
        return
    try:
        loop.run(_exit(opened))
    finally:
        loop.close()
