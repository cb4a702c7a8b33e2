"""The batched sampler against a plain reference for one row."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from infer.runner.bad_words import Vocabulary
from infer.runner.constraints import why_failed
from infer.runner.random import uniform
from infer.runner.sampler import Drawn, draw
from infer.runner.sampling import SamplingTable
from infer_api.processors import RowProcessor
from infer_api.requests import RowError, SamplingParams
from infer_api.steps import AdmittedRow


@dataclass
class Memory:
    """The part of a platform that the table needs."""

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype)


@dataclass
class Shelf:
    """Processors of a worker, by name, without plugins."""

    known: dict[str, RowProcessor] = field(default_factory=dict)

    def rows(self, asked: dict[str, Any], num_prompt: int) -> tuple[tuple[str, RowProcessor], ...] | RowError:
        return tuple((name, self.known[name]) for name in asked)


def make_table(
    width: int,
    rows: list[tuple[SamplingParams, list[int], int]],
    vocab_size: int = 0,
    *,
    known: dict[str, RowProcessor] | None = None,
    texts: Sequence[bytes] | None = None,
    **kw: Any,
) -> SamplingTable:
    table = SamplingTable(Memory(), len(rows), width, Shelf(known or {}))  # type: ignore[arg-type]
    if texts is not None:
        table.vocabulary = Vocabulary(texts, width, torch.device("cpu"))
    for slot, (params, tokens, num_prompt) in enumerate(rows):
        table.admit(AdmittedRow(slot, tokens, num_prompt, 0, params, vocab_size or width, **kw))
    return table


def draw_all(logits: Tensor, table: SamplingTable, positions: Tensor | None = None) -> Drawn:
    slots = torch.arange(len(logits))
    return draw(logits.clone(), slots.tolist(), slots, slots + 10 if positions is None else positions, table)


def failures(drawn: Drawn, table: SamplingTable) -> dict[int, RowError]:
    """Errors by row, as the worker tells them."""
    found = {at: why_failed(verdict, table.rows[at]) for at, verdict in enumerate(drawn.verdict_R.tolist()) if verdict}
    return found | drawn.errors


def adjusted(logits: Tensor, params: SamplingParams, tokens: list[int], num_prompt: int) -> Tensor:
    """Scores of one row, written to be read."""
    scores = logits.double().tolist()
    for token, bias in params.logit_bias.items():
        scores[token] += bias
    for token in range(len(scores)):
        count = tokens[num_prompt:].count(token)
        if token in tokens:
            r = params.repetition_penalty
            scores[token] = scores[token] / r if scores[token] > 0 else scores[token] * r
        scores[token] -= count * params.frequency_penalty + (count > 0) * params.presence_penalty
        if params.allowed_token_ids is not None and token not in params.allowed_token_ids:
            scores[token] = float("-inf")
    return torch.tensor(scores, dtype=torch.float64)


def filtered(scores: Tensor, params: SamplingParams) -> Tensor:
    """Probabilities under temperature and filters; greedy rows have no temperature."""
    temperature = params.temperature if params.temperature > 1e-4 else 1.0
    probs = torch.softmax((scores - scores.max()) / temperature, 0)
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
    return probs


def reference(logits: Tensor, params: SamplingParams, tokens: list[int], num_prompt: int, position: int) -> int:
    scores = adjusted(logits, params, tokens, num_prompt)
    if params.temperature <= 1e-4:
        return int(scores.argmax())
    probs = filtered(scores, params)
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
    "allowed": {"allowed_token_ids": (2, 9, 11, 30, 32), "top_p": 0.9},
    "allowed_greedy": {"allowed_token_ids": (31, 4), "temperature": 0.0, "logit_bias": {4: -3.0}},
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
    assert not drawn.verdict_R.any()


def test_small_temperatures_in_half_precision_stay_finite() -> None:
    logits = torch.randn(4, 500).half() * 40
    table = make_table(500, [(SamplingParams(temperature=t, seed=1), [1], 1) for t in (1e-2, 1e-3, 2e-4, 1.01e-4)])
    drawn = draw_all(logits, table)
    assert not drawn.verdict_R.any()
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
        table = make_table(40, rows)
        drawn = draw_all(logits, table)
        assert list(failures(drawn, table)) == [1]
        assert failures(drawn, table)[1] == RowError(
            "the model produced scores that are not finite (NaN or infinite)", "generation_failed", 500
        )
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


# -- processed log-probabilities ------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("width", [33, 2500])
def test_processed_logprobs_are_those_of_the_distribution_that_is_drawn_from(width: int, name: str) -> None:
    torch.manual_seed(random.randrange(2**31))
    fields: dict[str, Any] = CASES[name]
    params = SamplingParams(seed=5, logprobs=20, logprobs_mode="processed", **fields)
    tokens, logits = torch.randint(0, width, (12,)).tolist(), torch.randn(2, width) * 3
    raw = SamplingParams(seed=6, logprobs=3)
    report = draw_all(logits, make_table(width, [(params, tokens, 5), (raw, tokens, 5)])).logprobs
    want = filtered(adjusted(logits[0], params, tokens, 5), params)
    want = (want / want.sum()).log()
    found = report[0]
    possible = int((want > float("-inf")).sum())
    assert len(found.top_ids) == len(found.top_logprobs) == min(20, possible)
    assert found.top_logprobs == pytest.approx(want.topk(len(found.top_ids)).values.tolist(), abs=1e-4)
    assert found.top_logprobs == pytest.approx(want[found.top_ids].tolist(), abs=1e-4)
    assert found.logprob == pytest.approx(float(want[found.token_id]), abs=1e-4)
    assert report[1].top_logprobs == pytest.approx(torch.log_softmax(logits[1], 0).topk(3).values.tolist(), abs=1e-5)


def test_a_token_far_down_that_no_filter_drops_keeps_its_processed_logprob() -> None:
    logits = torch.zeros(1, 6)
    logits[0, 2] = -300.0  # its probability is 0 in single precision
    params = SamplingParams(seed=1, logprobs=6, logprobs_mode="processed", top_k=6)
    report = draw_all(logits, make_table(6, [(params, [1], 1)])).logprobs[0]
    assert report.top_ids[-1] == 2
    assert report.top_logprobs[-1] == pytest.approx(-300 - float(torch.tensor(5.0).log()), abs=1e-3)


def test_more_logprobs_than_there_are_tokens_list_each_once() -> None:
    params = SamplingParams(temperature=0.0, logprobs=20)
    report = draw_all(torch.randn(1, 8), make_table(8, [(params, [1], 1)], vocab_size=5)).logprobs[0]
    assert sorted(report.top_ids) == [0, 1, 2, 3, 4]


# -- what requests forbid -------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_only_allowed_tokens_are_drawn_and_ids_beyond_the_output_layer_harm_nobody(temperature: float) -> None:
    logits = torch.randn(1, 50) * 5
    ids = set()
    for seed in range(40):
        params = SamplingParams(temperature=temperature, seed=seed, allowed_token_ids=(3, 17, 40, 50, 9999))
        ids.add(int(draw_all(logits, make_table(50, [(params, [1], 1)])).token_ids_R))
    assert ids <= {3, 17, 40}
    assert len(ids) > 1 or temperature < 5.0


TEXTS = [bytes([65 + each]) for each in range(20)]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"allowed_token_ids": (3,), "bad_words": ("D",)}, ["allowed_token_ids", "bad_words"]),
        ({"allowed_token_ids": (7,), "min_tokens": 5}, ["allowed_token_ids", "min_tokens"]),
        ({"allowed_token_ids": (99,)}, ["allowed_token_ids"]),
        ({"processors": {"none_at_all": {}}}, ["none_at_all"]),
        ({"bad_words": tuple(text.decode() for text in TEXTS)}, ["bad_words"]),
    ],
)
def test_a_row_that_may_draw_nothing_ends_with_an_error_that_names_its_constraints(
    fields: dict[str, Any], named: list[str], temperature: float
) -> None:
    logits = torch.randn(3, 20)
    others = [SamplingParams(seed=each) for each in range(2)]
    positions = torch.full((3,), 2)
    alone = make_table(20, [(each, [1], 1) for each in (others[0], others[0], others[1])])
    clean = draw_all(logits, alone, positions)
    rows = [others[0], SamplingParams(temperature=temperature, seed=1, **fields), others[1]]
    known: dict[str, RowProcessor] = {"none_at_all": lambda scores_V, token_ids: scores_V.fill_(float("-inf"))}
    table = make_table(20, [(each, [1], 1) for each in rows], stop_ids=(7,), texts=TEXTS, known=known)
    drawn = draw_all(logits, table, positions)
    assert list(failures(drawn, table)) == [1]
    error = failures(drawn, table)[1]
    assert (error.code, error.status) == ("no_allowed_token", 400)
    constraints = ("allowed_token_ids", "bad_words", "min_tokens", "none_at_all", "logit_bias")
    assert [word for word in constraints if word in error.message] == named
    assert drawn.token_ids_R[[0, 2]].tolist() == clean.token_ids_R[[0, 2]].tolist()


def test_a_nan_row_is_the_models_fault_whatever_its_request_forbids() -> None:
    params = SamplingParams(seed=1, allowed_token_ids=(3,), bad_words=("D",))
    table = make_table(20, [(params, [1], 1)], texts=TEXTS)
    logits = torch.randn(1, 20)
    logits[0, 11] = float("nan")
    assert failures(draw_all(logits, table), table)[0].code == "generation_failed"


def test_bad_words_without_a_vocabulary_fail_their_row_only() -> None:
    rows = [(SamplingParams(seed=1, bad_words=("D",)), [1], 1), (SamplingParams(seed=1), [1], 1)]
    table = make_table(20, rows)
    found = failures(draw_all(torch.randn(2, 20), table), table)
    assert {index: (error.code, error.status) for index, error in found.items()} == {0: ("no_vocabulary", 500)}


# -- processors -----------------------------------------------------------------------------------------


def test_a_processor_sees_the_text_so_far_and_its_changes_count() -> None:
    seen: list[list[int]] = []

    def last_plus_one(scores_V: Tensor, token_ids: Sequence[int]) -> None:
        seen.append(list(token_ids))
        scores_V[token_ids[-1] + 1] = 100.0

    params = SamplingParams(temperature=0.0, processors={"next": {}})
    table = make_table(20, [(params, [4, 5, 6], 2)], known={"next": last_plus_one})
    for _ in range(3):
        table.rows[0].take(int(draw_all(torch.randn(1, 20), table).token_ids_R))
    assert seen == [[4, 5, 6], [4, 5, 6, 7], [4, 5, 6, 7, 8]]


def test_a_processor_cannot_make_possible_what_is_not() -> None:
    params = SamplingParams(temperature=0.0, processors={"all": {}}, allowed_token_ids=(3, 4, 18), bad_words=("D",))
    known: dict[str, RowProcessor] = {"all": lambda scores_V, token_ids: scores_V.zero_()}
    table = make_table(20, [(params, [1], 1)], vocab_size=16, texts=TEXTS, known=known)
    assert draw_all(torch.randn(1, 20), table).token_ids_R.tolist() == [4]


@pytest.mark.parametrize("way", ["raises", "exits", "resizes", "nan", "infinite"])
def test_a_processor_that_fails_ends_its_row_only_and_is_named(way: str) -> None:
    def broken(scores_V: Tensor, token_ids: Sequence[int]) -> None:
        scores_V[2] = float("nan") if way == "nan" else float("inf")
        if way == "raises":
            raise KeyError("gone")
        if way == "exits":
            raise SystemExit(3)
        if way == "resizes":
            scores_V.resize_(3)

    logits = torch.randn(2, 20)
    rows = [(SamplingParams(seed=1, processors={"broken": {}}), [1], 1), (SamplingParams(seed=2), [1], 1)]
    table = make_table(20, rows, known={"broken": broken})
    drawn = draw_all(logits, table)
    found = failures(drawn, table)
    assert list(found) == [0]
    assert (found[0].code, found[0].status) == ("processor_failed", 500)
    assert "'broken'" in found[0].message
    assert ("KeyError: 'gone'" in found[0].message) == (way == "raises")
    alone = draw_all(logits[1:], make_table(20, rows[1:]), torch.tensor([11])).token_ids_R
    assert drawn.token_ids_R[1:].tolist() == alone.tolist()


# -- seeds ----------------------------------------------------------------------------------------------


def random_params(rng: random.Random, width: int) -> SamplingParams:
    """Any features together."""
    choose = rng.choice
    return SamplingParams(
        seed=rng.randrange(2**62),
        temperature=choose((0.0, 0.2, 1.0, 1.6)),
        top_k=choose((0, 1, 5, 1500, width)),
        top_p=choose((1.0, 0.95, 0.4)),
        min_p=choose((0.0, 0.01, 0.3)),
        presence_penalty=choose((0.0, 1.0)),
        repetition_penalty=choose((1.0, 1.2)),
        logit_bias=choose(({}, {rng.randrange(width): 3.0})),
        logprobs=choose((None, 0, 4)),
        logprobs_mode=choose(("raw", "processed")),
        min_tokens=choose((0, 4)),
        bad_words=choose(((), ("B", "CD"))),
        allowed_token_ids=choose((None, tuple(range(0, width, 3)))),
        processors=choose(({}, {"flip": {}})),
    )


@pytest.mark.parametrize("width", [40, 3000])
def test_a_row_is_the_same_alone_and_among_neighbours_with_all_kinds_of_features_at_any_index(width: int) -> None:
    seed = random.SystemRandom().randrange(2**31)
    rng = random.Random(seed)
    torch.manual_seed(seed)
    texts = [rng.choice((b"A", b"B", b"C", b"D", b"CD", b" B", b"")) for _ in range(width)]
    known: dict[str, RowProcessor] = {"flip": lambda scores_V, token_ids: scores_V.neg_()}
    params = random_params(rng, width)
    logits, tokens = torch.randn(width) * 3, [rng.randrange(width) for _ in range(6)]
    kit = {"known": known, "texts": texts, "stop_ids": (1, 2)}
    position = torch.tensor([9])
    alone = draw_all(logits[None], make_table(width, [(params, tokens, 4)], **kit), position)  # type: ignore[arg-type]
    for index in (0, rng.randrange(1, 31), 31):
        rows = [(random_params(rng, width), [rng.randrange(width) for _ in range(5)], 3) for _ in range(32)]
        rows[index] = (params, tokens, 4)
        scores = torch.randn(32, width) * torch.rand(32, 1) * 9
        scores[(index + 5) % 32] = float("nan")
        scores[index] = logits
        positions = torch.randint(3, 500, (32,))
        positions[index] = 9
        together = draw_all(scores, make_table(width, rows, **kit), positions)  # type: ignore[arg-type]
        assert together.token_ids_R[index] == alone.token_ids_R[0], f"seed {seed}"
        assert together.verdict_R[index] == alone.verdict_R[0], f"seed {seed}"
        assert together.logprobs.get(index) == alone.logprobs.get(0), f"seed {seed}"
