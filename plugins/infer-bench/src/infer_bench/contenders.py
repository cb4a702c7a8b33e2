"""Who is measured: the two things a contender can do, and infer as a contender."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from infer_api.commands import CommandContext
from infer_api.errors import ConfigError, InferError
from infer_api.requests import SamplingParams
from infer_api.services import TextDelta

__all__ = ["BatchContender", "InferBatch", "InferStream", "StreamContender", "check_count"]

Prompt = Sequence[int]


class BatchContender(Protocol):
    """Runs many prompts at once."""

    name: str

    def generate(self, prompts: Sequence[Prompt], output_len: int) -> None:
        """Generate exactly `output_len` tokens greedily for each prompt. Raises InferError when fewer came."""
        ...

    def close(self) -> None: ...


class StreamContender(Protocol):
    """Runs one prompt and tells when its tokens came."""

    name: str

    def token_times(self, prompt: Prompt, output_len: int) -> list[float]:
        """Seconds from sending the prompt to each of `output_len` tokens. Raises InferError when fewer came."""
        ...

    def close(self) -> None: ...


class InferBatch:
    """infer's engine in this process, through `LLM.generate`."""

    name = "infer"

    def __init__(self, context: CommandContext) -> None:
        self._llm = context.open_llm()

    @property
    def vocab_size(self) -> int:
        tokenizer = self._llm.tokenizer
        if tokenizer is None:
            raise ConfigError("this model has no tokenizer, so its token ids are unknown; add one with --tokenizer")
        return int(tokenizer.vocab_size)

    def generate(self, prompts: Sequence[Prompt], output_len: int) -> None:
        replies = self._llm.generate(list(prompts), _greedy(output_len))
        for reply in replies:
            check_count(self.name, len(reply.outputs[0].token_ids), output_len)

    def close(self) -> None:
        self._llm.close()


class InferStream:
    """infer as a server runs it: the configured engine process, and events as routes get them.

    A token that completes no character comes with the next one; the gap before them is shared evenly.
    """

    name = "infer"

    def __init__(self, context: CommandContext) -> None:
        self._runner = asyncio.Runner()
        self._opened = context.open_services()
        try:
            self._services = self._runner.run(_enter(self._opened))
        except BaseException:
            self._runner.close()
            raise

    @property
    def vocab_size(self) -> int:
        return self._services.models[0].vocab_size

    def token_times(self, prompt: Prompt, output_len: int) -> list[float]:
        times = self._runner.run(self._token_times(prompt, output_len))
        check_count(self.name, len(times), output_len)
        return times

    async def _token_times(self, prompt: Prompt, output_len: int) -> list[float]:
        services = self._services
        started = before = time.perf_counter()
        prompts = [services.renderer.text(prompt)]
        sampling = services.outputs.check(prompts, _greedy(output_len))
        times: list[float] = []
        async for event in services.outputs.stream(prompts, sampling, request_id="bench"):
            if isinstance(event, TextDelta) and event.token_ids:
                now = time.perf_counter()
                step = (now - before) / len(event.token_ids)
                times.extend(before - started + step * (at + 1) for at in range(len(event.token_ids)))
                before = now
        return times

    def close(self) -> None:
        try:
            self._runner.run(_exit(self._opened))
        finally:
            self._runner.close()


def check_count(name: str, found: int, wanted: int) -> None:
    """Raise InferError unless the contender generated what it was asked for: its figures would be wrong."""
    if found != wanted:
        raise InferError(f"{name} generated {found} tokens instead of {wanted}, so its speed cannot be compared")


def _greedy(output_len: int) -> SamplingParams:
    return SamplingParams(temperature=0.0, ignore_eos=True, max_tokens=output_len)


async def _enter(opened: Any) -> Any:
    return await opened.__aenter__()


async def _exit(opened: Any) -> None:
    await opened.__aexit__(None, None, None)
