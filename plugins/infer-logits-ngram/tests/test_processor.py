from __future__ import annotations

import random
import time

import pytest
import torch

from infer_api.processors import ProcessorContext
from infer_logits_ngram.parameters import NoRepeatNgramParameters
from infer_logits_ngram.processor import NoRepeatNgram
from infer_testkit.logits_processor import LogitsProcessorConformance

WIDTH = 12
CONTEXT = ProcessorContext(WIDTH, torch.device("cpu"))


class TestNoRepeatNgram(LogitsProcessorConformance):
    processor = "no_repeat_ngram"
    accepted = ({"size": 1}, {"size": 2}, {"size": 3, "window": 9}, {"size": 2, "window": None})
    refused = (
        {},
        {"size": 0},
        {"size": 65},
        {"size": "2"},
        {"size": 2.5},
        {"size": True},
        {"size": 3, "window": 2},
        {"size": 2, "window": 0},
    )


def banned_by(row: object, history: list[int]) -> set[int]:
    scores_V = torch.zeros(WIDTH)
    row(scores_V, history)  # type: ignore[operator]
    return set((scores_V == float("-inf")).nonzero()[:, 0].tolist())


def reference(history: list[int], size: int, window: int | None) -> set[int]:
    """Look at every place anew."""
    seen = history if window is None else history[-window:]
    grams = [tuple(seen[at : at + size]) for at in range(len(seen) - size + 1)]
    ending = tuple(history[len(history) - size + 1 :]) if len(history) >= size - 1 else None
    return {gram[-1] for gram in grams if gram[:-1] == ending}


@pytest.mark.parametrize("window", [None, 6, 20])
@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_growing_text_is_treated_as_by_looking_everywhere(size: int, window: int | None) -> None:
    rng = random.Random()
    history = [rng.randrange(3) for _ in range(rng.randrange(8))]
    row = NoRepeatNgram(None).row(NoRepeatNgramParameters(size=size, window=window), len(history), CONTEXT)
    for _ in range(60):
        assert banned_by(row, history) == reference(history, size, window), (history, size, window)
        history.append(rng.randrange(3 if rng.random() < 0.9 else WIDTH))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_without_a_window_it_equals_that_of_transformers(size: int) -> None:
    processing = pytest.importorskip("transformers.generation.logits_process")
    theirs = processing.NoRepeatNGramLogitsProcessor(size)
    rng = random.Random()
    history = [rng.randrange(4) for _ in range(5)]
    row = NoRepeatNgram(None).row(NoRepeatNgramParameters(size=size), 5, CONTEXT)
    for _ in range(40):
        scores_V = torch.randn(WIDTH)
        want_V = theirs(torch.tensor([history]), scores_V[None].clone())[0]
        row(scores_V, history)
        assert torch.equal(scores_V, want_V)
        history.append(rng.randrange(4))


def test_another_shorter_history_is_noticed() -> None:
    row = NoRepeatNgram(None).row(NoRepeatNgramParameters(size=2), 1, CONTEXT)
    assert banned_by(row, [1, 2, 3, 1]) == {2}
    assert banned_by(row, [1, 5, 1]) == {5}


def test_a_step_costs_the_same_however_long_the_text_is() -> None:
    def seconds_for_steps(length: int) -> float:
        history = [each % 1000 for each in range(length)]
        row = NoRepeatNgram(None).row(NoRepeatNgramParameters(size=3), length, ProcessorContext(1000, CONTEXT.device))
        scores_V = torch.zeros(1000)
        row(scores_V, history)
        started = time.process_time()
        for each in range(300):
            history.append(each)
            row(scores_V, history)
        return time.process_time() - started

    short = min(seconds_for_steps(500) for _ in range(3))
    long = min(seconds_for_steps(100_000) for _ in range(3))
    assert long < 5 * short + 0.01
