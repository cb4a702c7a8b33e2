"""The batched sampler against a plain reference for one row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from infer.runner.random import uniform
from infer.runner.sampler import Drawn, draw
from infer.runner.sampling import SamplingTable
from infer_api.requests import SamplingParams
from infer_api.steps import AdmittedRow


@dataclass
class Memory:
    """The part of a platform that the table needs."""

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype)


def make_table(
    width: int, rows: list[tuple[SamplingParams, list[int], int]], vocab_size: int = 0, **kw: Any
) -> SamplingTable:
    table = SamplingTable(Memory(), len(rows), width)  # type: ignore[arg-type]
    for slot, (params, tokens, num_prompt) in enumerate(rows):
        table.admit(AdmittedRow(slot, tokens, num_prompt, 0, params, vocab_size or width, **kw))
    return table


def draw_all(logits: Tensor, table: SamplingTable, positions: Tensor | None = None) -> Drawn:
    slots = torch.arange(len(logits))
    return draw(logits.clone(), slots.tolist(), slots, slots + 10 if positions is None else positions, table)


def reference(logits: Tensor, params: SamplingParams, tokens: list[int], num_prompt: int, position: int) -> int:
    """One row, written to be read."""
    scores = logits.double().clone()
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    for token in range(len(scores)):
        count = tokens[num_prompt:].count(token)
        if token in tokens:
            r = params.repetition_penalty
            scores[token] = scores[token] / r if scores[token] > 0 else scores[token] * r
        scores[token] -= count * params.frequency_penalty + (count > 0) * params.presence_penalty
    if params.temperature <= 1e-4:
        return int(scores.argmax())
    probs = torch.softmax((scores - scores.max()) / params.temperature, 0)
    order = probs.argsort(descending=True)
    keep = torch.zeros_like(probs, dtype=torch.bool)
    limit = params.top_k if 0 < params.top_k < len(probs) else len(probs)
    mass, total = 0.0, float(probs[order[:limit]].sum())
    for token in order[:limit].tolist():
        if mass >= params.top_p * total and keep.any():
            break
        mass += float(probs[token])
        keep[token] = probs[token] >= params.min_p * probs.max()
    keep[order[0]] = True
    probs[~keep] = 0
    cumulative = probs.cumsum(0)
    point = float(uniform(torch.tensor([params.seed or 0]), torch.tensor([position]))) * float(cumulative[-1])
    return int((cumulative > point).nonzero()[0])


CASES = {
    "greedy": {"temperature": 0.0},
    "plain": {},
    "cold": {"temperature": 0.3},
    "top_k": {"top_k": 7},
    "top_p": {"top_p": 0.6},
    "min_p": {"min_p": 0.2},
    "all": {"top_k": 20, "top_p": 0.8, "min_p": 0.05, "temperature": 1.7},
    "penalties": {"presence_penalty": 0.7, "frequency_penalty": 0.4, "repetition_penalty": 1.3, "temperature": 0.0},
    "bias": {"logit_bias": {3: 4.0, 5: -100.0}, "temperature": 0.8},
    "top_p_zero": {"top_p": 0.0},
}


@pytest.fixture(autouse=True)
def seeded() -> None:
    """Scores are the same in every run: in half precision two of a row may tie, and then either may be drawn."""
    torch.manual_seed(7)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("width", [33, 2500])
def test_each_row_of_a_mixed_batch_equals_the_reference(width: int, seed: int) -> None:
    torch.manual_seed(seed)
    rows, logits = [], []
    for index, fields in enumerate(list(CASES.values()) * 8):
        params = SamplingParams(seed=1000 + index, **fields)  # type: ignore[arg-type]
        tokens = torch.randint(0, width, (12,)).tolist()
        rows.append((params, tokens, 5))
        logits.append(torch.randn(width) * 3)
    table = make_table(width, rows)
    got = draw_all(torch.stack(logits), table).token_ids_R.tolist()
    want = [
        reference(score, *row, position=index + 10) for index, (score, row) in enumerate(zip(logits, rows, strict=True))
    ]
    # float32 against float64: a draw may fall on the other side of a boundary once in very many rows.
    assert sum(a != b for a, b in zip(got, want, strict=True)) <= 1


def test_a_row_draws_the_same_alone_and_among_neighbours() -> None:
    width = 5000
    params = [
        SamplingParams(seed=i, top_p=0.5 + i / 70, top_k=(i % 3) * 40, temperature=0.5 + i / 10) for i in range(30)
    ]
    logits = torch.randn(30, width)
    positions = torch.arange(30) * 3
    together = draw_all(logits, make_table(width, [(p, [1, 2], 2) for p in params]), positions).token_ids_R.tolist()
    for i, p in enumerate(params):
        alone = draw_all(logits[i : i + 1], make_table(width, [(p, [1, 2], 2)]), positions[i : i + 1])
        assert alone.token_ids_R.tolist() == [together[i]]


def test_draws_follow_the_distribution() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0, float("-inf")])
    table = make_table(5, [(SamplingParams(seed=3), [0], 1)])
    slots = torch.zeros(4000, dtype=torch.int64)
    drawn = draw(logits.repeat(4000, 1), [0] * 4000, slots, torch.arange(4000), table).token_ids_R
    shares = torch.bincount(drawn, minlength=5) / 4000
    assert torch.allclose(shares, torch.softmax(logits, 0), atol=0.03)
    assert shares[4] == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("temperature", [1e-4, 1e-5, 1e-6, 1e-12, 0.0])
def test_tiny_temperatures_are_greedy_and_never_fail(dtype: torch.dtype, temperature: float) -> None:
    logits = (torch.randn(3, 200) * 30).to(dtype)
    table = make_table(200, [(SamplingParams(temperature=temperature, seed=i), [1], 1) for i in range(3)])
    drawn = draw_all(logits, table)
    assert drawn.token_ids_R.tolist() == logits.float().argmax(-1).tolist()
    assert not drawn.failed_R.any()


def test_small_temperatures_in_half_precision_stay_finite() -> None:
    logits = torch.randn(4, 500).half() * 40
    table = make_table(500, [(SamplingParams(temperature=t, seed=1), [1], 1) for t in (1e-2, 1e-3, 2e-4, 1.01e-4)])
    drawn = draw_all(logits, table)
    assert not drawn.failed_R.any()
    assert drawn.token_ids_R.tolist() == logits.float().argmax(-1).tolist()


@pytest.mark.parametrize("top_k", [0, -1, 320, 320 + 1000, 2**31, 2**40])
def test_top_k_beyond_the_vocabulary_draws_like_no_top_k(top_k: int) -> None:
    logits = torch.randn(1, 320)
    free = draw_all(logits, make_table(320, [(SamplingParams(seed=5), [1], 1)])).token_ids_R
    assert torch.equal(
        draw_all(logits, make_table(320, [(SamplingParams(seed=5, top_k=top_k), [1], 1)])).token_ids_R, free
    )


@pytest.mark.parametrize("fields", [{"temperature": 0.0}, {"top_p": 0.9}, {"top_k": 5}, {}])
def test_ids_without_a_token_are_never_drawn(fields: dict[str, Any]) -> None:
    logits = torch.randn(1, 320)
    logits[0, 310] = 50.0
    table = make_table(320, [(SamplingParams(seed=2, logprobs=5, **fields), [1], 1)], vocab_size=300)
    drawn = draw_all(logits, table)
    assert int(drawn.token_ids_R) < 300
    assert max(drawn.logprobs[0].top_ids) < 300


def test_stop_ids_are_impossible_before_min_tokens_and_only_in_their_own_row() -> None:
    logits = torch.zeros(2, 50)
    logits[:, 7] = 9.0
    rows = [(SamplingParams(temperature=0.0, min_tokens=3), [1, 2], 2), (SamplingParams(temperature=0.0), [1, 2], 2)]
    table = make_table(50, rows, stop_ids=(7,))
    for generated, first in ((0, False), (2, False), (3, True)):
        positions = torch.full((2,), 2 + generated)
        ids = draw_all(logits, table, positions).token_ids_R.tolist()
        assert (ids[0] == 7, ids[1] == 7) == (first, True)


def test_a_stop_id_beyond_the_output_layer_harms_nobody() -> None:
    logits = torch.zeros(1, 50)
    logits[0, 7] = 9.0
    table = make_table(50, [(SamplingParams(temperature=0.0, min_tokens=3), [1], 1)], stop_ids=(7, 50, 4_000_000))
    assert int(draw_all(logits, table, torch.tensor([1])).token_ids_R) != 7


def test_a_row_of_nan_fails_alone() -> None:
    logits = torch.randn(3, 40)
    clean = draw_all(logits, make_table(40, [(SamplingParams(seed=i), [1], 1) for i in range(3)])).token_ids_R
    logits[1] = float("nan")
    for temperature in (0.0, 1.0):
        rows = [(SamplingParams(seed=i, temperature=temperature if i == 1 else 1.0), [1], 1) for i in range(3)]
        drawn = draw_all(logits, make_table(40, rows))
        assert drawn.failed_R.tolist() == [False, True, False]
        assert drawn.token_ids_R[[0, 2]].tolist() == clean[[0, 2]].tolist()


def test_logprobs_are_those_of_the_model_before_bias_and_penalties() -> None:
    logits = torch.randn(2, 60)
    params = SamplingParams(temperature=0.0, logprobs=4, logit_bias={9: 100.0}, presence_penalty=1.0)
    drawn = draw_all(logits, make_table(60, [(params, [1], 1), (SamplingParams(seed=1), [1], 1)]))
    want = torch.log_softmax(logits[0], -1)
    assert list(drawn.logprobs) == [0]
    report = drawn.logprobs[0]
    assert report.token_id == 9
    assert report.logprob == pytest.approx(float(want[9]), abs=1e-5)
    assert report.top_ids == want.topk(4).indices.tolist()
    assert report.top_logprobs == pytest.approx(want.topk(4).values.tolist(), abs=1e-5)


def test_penalties_see_tokens_that_were_drawn_since() -> None:
    logits = torch.zeros(1, 10)
    logits[0, 4], logits[0, 6] = 1.0, 0.8
    table = make_table(10, [(SamplingParams(temperature=0.0, frequency_penalty=0.5), [1], 1)])
    first = draw_all(logits, table).token_ids_R
    table.record((0,), first)
    assert (int(first), int(draw_all(logits, table).token_ids_R)) == (4, 6)
