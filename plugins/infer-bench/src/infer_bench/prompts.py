"""The prompts of a load: lengths by the options, contents by a writer of ids or of words."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from infer_api.errors import ConfigError
from infer_bench.options import BenchOptions
from infer_bench.sharegpt import read_conversations
from infer_bench.target import TokenCounter
from infer_bench.words import WORDS

__all__ = ["IdWriter", "Prompt", "WordWriter", "Writer", "make_prompts"]

_AT_ONCE = 16
_TRIES = 4
_CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True)
class Prompt:
    """What one request asks: text or token ids, its tokens as far as known, and the tokens to generate."""

    content: str | list[int]
    input_len: int
    output_len: int


class Writer(Protocol):
    """Makes random contents."""

    async def write(self, prefix_seed: str, prefix_len: int, seed: str, own_len: int, output_len: int) -> Prompt:
        """A prompt of a prefix (the same for the same seed and length) and of tokens of its own."""
        ...


@dataclass(frozen=True)
class IdWriter:
    """Uniform token ids below `vocab_size`."""

    vocab_size: int

    async def write(self, prefix_seed: str, prefix_len: int, seed: str, own_len: int, output_len: int) -> Prompt:
        ids = [*self._ids(prefix_seed, prefix_len), *self._ids(seed, own_len)]
        return Prompt(ids, len(ids), output_len)

    def _ids(self, seed: str, count: int) -> list[int]:
        source = random.Random(seed)
        return [source.randrange(self.vocab_size) for _ in range(count)]


@dataclass(frozen=True)
class WordWriter:
    """Common words, about one token each; with a counter, trimmed until the prompt has exactly the asked length."""

    counter: TokenCounter | None

    async def write(self, prefix_seed: str, prefix_len: int, seed: str, own_len: int, output_len: int) -> Prompt:
        words = [*_words(prefix_seed, prefix_len), *_words(seed, own_len)]
        if self.counter is None:
            return Prompt(" ".join(words), len(words), output_len)
        text, count = await self._fitted(self.counter, words, prefix_len + own_len, _words(f"{seed} more", own_len))
        return Prompt(text, count, output_len)

    async def _fitted(
        self, counter: TokenCounter, words: list[str], length: int, spare: Sequence[str]
    ) -> tuple[str, int]:
        """Words added or dropped at the end until the text has `length` tokens; and the length that it has."""
        more = iter(spare)
        count = await counter.count(" ".join(words))
        for attempt in range(_TRIES * 2):
            missing = length - count
            if not missing:
                break
            if missing < 0:
                # A word may be more than a token. Later tries take one at a time, so that they come to an end.
                del words[len(words) + (missing if attempt < _TRIES else -1) :]
                words[:] = words or ["the"]
            else:
                words += [next(more, "the") if attempt < _TRIES else "the" for _ in range(missing)]
            count = await counter.count(" ".join(words))
        return " ".join(words), count


def _words(seed: str, count: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


async def make_prompts(options: BenchOptions, writer: Writer, num_prompts: int, run: int) -> list[Prompt]:
    """The prompts of run number `run` (warm-ups have negative numbers). Raises ConfigError for a bad dataset."""
    if options.dataset == "sharegpt":
        counter = writer.counter if isinstance(writer, WordWriter) else None
        return await _from_file(options, counter, num_prompts, run)
    source = random.Random(f"lengths {options.seed} {run}")
    prefix_len = options.prefix_len if options.dataset == "shared-prefix" else 0
    lengths = [
        (
            _length(source, options.input_len, options.range_ratio),
            _length(source, options.output_len, options.range_ratio),
        )
        for _ in range(num_prompts)
    ]

    async def one(index: int) -> Prompt:
        # Prefixes belong to a run: a later one must not find those of an earlier one in the cache.
        prefix_seed = f"prefix {options.seed} {run} {index % options.num_prefixes}"
        input_len, output_len = lengths[index]
        return await writer.write(prefix_seed, prefix_len, f"{options.seed} {run} {index}", input_len, output_len)

    return await _few_at_once([partial(one, index) for index in range(num_prompts)])


def _length(source: random.Random, middle: int, ratio: float) -> int:
    return max(1, source.randint(round(middle * (1 - ratio)), round(middle * (1 + ratio))))


async def _from_file(options: BenchOptions, counter: TokenCounter | None, num_prompts: int, run: int) -> list[Prompt]:
    if options.dataset_path is None:
        raise ConfigError("--dataset sharegpt needs --dataset-path FILE")
    turns = read_conversations(options.dataset_path)
    source = random.Random(f"sharegpt {options.seed} {run}")
    # A file that is too small has its conversations asked more than once.
    chosen = source.sample(turns, num_prompts) if len(turns) >= num_prompts else source.choices(turns, k=num_prompts)
    has_length = "output_len" in options.model_fields_set

    async def one(question: str, answer: str) -> Prompt:
        input_len, output_len = await _count(counter, question), options.output_len
        return Prompt(question, input_len, output_len if has_length else await _count(counter, answer))

    return await _few_at_once([partial(one, *turn) for turn in chosen])


async def _count(counter: TokenCounter | None, text: str) -> int:
    return max(1, await counter.count(text) if counter else round(len(text) / _CHARACTERS_PER_TOKEN))


async def _few_at_once(makers: Sequence[Callable[[], Awaitable[Prompt]]]) -> list[Prompt]:
    """Prompts in order of their makers, of which some work at once: each may ask the server several times."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(make: Callable[[], Awaitable[Prompt]]) -> Prompt:
        async with slots:
            return await make()

    return list(await asyncio.gather(*(one(make) for make in makers)))
