"""Prompts of random token ids."""

from __future__ import annotations

import random
from dataclasses import dataclass

from infer_bench.options import BenchOptions

__all__ = ["Workload"]


@dataclass(frozen=True)
class Workload:
    """What every contender gets in every run. Each run has prompts of its own, so that no cache knows them."""

    num_prompts: int
    input_len: int
    output_len: int
    seed: int
    vocab_size: int

    @classmethod
    def of(cls, options: BenchOptions, vocab_size: int, *, num_prompts: int) -> Workload:
        """The workload of the flags; `num_prompts` is for those who did not choose."""
        count = options.num_prompts or num_prompts
        return cls(count, options.input_len, options.output_len, options.seed, vocab_size)

    def prompts(self, run: int) -> list[list[int]]:
        """Prompts of run number `run`; warm-up runs have negative numbers."""
        source = random.Random(f"{self.seed} {run}")
        return [[source.randrange(self.vocab_size) for _ in range(self.input_len)] for _ in range(self.num_prompts)]
