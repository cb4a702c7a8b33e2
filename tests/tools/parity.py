"""Greedy parity with transformers: equal tokens, or a first difference that is a tie of the reference's logits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["TIE", "Difference", "first_difference", "prompt_texts", "random_prompts", "reference_tokens"]

TIE = 1e-4
"""Two logits closer than this may come out in either order of float32 sums."""

_SHORT = (
    "The capital of France is",
    "Once upon a time",
    "2 + 2 =",
    "Water boils at",
    "The three primary colours are",
    "A haiku about rain:",
)
_UNICODE = (
    "Größe, Straße, Übung: drei deutsche Wörter.",
    "東京は日本の首都です。大阪は",
    "Привет, как дела?",
    "🎈🎈🎈 Happy birthday! 🎂",
    "naïve café — “quoted” … ½ kg",
    "مرحبا بالعالم",
)
_CODE = (
    "def fibonacci(n):\n    ",
    "#include <stdio.h>\n\nint main(void) {\n\tprintf(",
    "SELECT name, COUNT(*) FROM users\nWHERE ",
    '{"name": "infer", "version": ',
    "for (let i = 0; i < 10; i++) {\n    console.log(",
)
_SENTENCE = "The river carried {} boats past the {} mill, and on day {} nobody counted them again. "


def prompt_texts() -> list[str]:
    """Twenty prompts: short, unicode, code, and three long ones (the longest about 1,500 tokens)."""
    words = ("seven", "old", "green", "quiet", "broken", "paper", "distant", "empty")
    long = [
        "".join(_SENTENCE.format(words[i % 8], words[(i * 3) % 8], i) for i in range(count)) for count in (10, 30, 70)
    ]
    return [*_SHORT, *_UNICODE, *_CODE, *long]


def random_prompts(vocab_size: int, lengths: Sequence[int], seed: int) -> list[list[int]]:
    """Random token ids, for models without a tokenizer."""
    rng = random.Random(seed)
    return [[rng.randrange(3, vocab_size) for _ in range(length)] for length in lengths]


@dataclass(frozen=True)
class Difference:
    """The first token that differs, and how far apart the reference saw the two candidates."""

    step: int
    reference: int
    found: int
    gap: float


@torch.inference_mode()
def reference_tokens(model: Any, prompt: Sequence[int], count: int) -> tuple[list[int], torch.Tensor]:
    """`count` greedy tokens of a transformers model, and its logits [count, V] at each of them."""
    out = model.generate(
        torch.tensor([list(prompt)]),
        attention_mask=torch.ones(1, len(prompt), dtype=torch.int64),
        max_new_tokens=count,
        min_new_tokens=count,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        output_logits=True,
        return_dict_in_generate=True,
    )
    return out.sequences[0, len(prompt) :].tolist(), torch.cat(out.logits)


def first_difference(found: Sequence[int], want: Sequence[int], logits: torch.Tensor) -> Difference | None:
    """None when the tokens are equal; otherwise the first difference."""
    assert len(found) == len(want), f"{len(found)} tokens instead of {len(want)}"
    for step, (ours, theirs) in enumerate(zip(found, want, strict=True)):
        if ours != theirs:
            return Difference(step, theirs, ours, float(logits[step, theirs] - logits[step, ours]))
    return None
