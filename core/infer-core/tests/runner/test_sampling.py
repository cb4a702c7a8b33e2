from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from infer.runner.bad_words import Vocabulary
from infer.runner.sampling import RowSampling, SamplingTable
from infer_api.requests import RowError, SamplingParams
from infer_api.steps import AdmittedRow

TEXTS = [b"a", b"b", b"c", b"ab", b"x"]


class Memory:
    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.zeros(shape, dtype=dtype)


class Failing:
    def rows(self, asked: dict[str, Any], num_prompt: int) -> Any:
        return RowError("it does not want to", "processor_failed") if asked else ()


def admitted(params: SamplingParams, tokens: list[int], num_prompt: int) -> RowSampling:
    table = SamplingTable(Memory(), 1, len(TEXTS), Failing())  # type: ignore[arg-type]
    table.vocabulary = Vocabulary(TEXTS, len(TEXTS), torch.device("cpu"))
    table.admit(AdmittedRow(0, tokens, num_prompt, 0, params, len(TEXTS)))
    return table.rows[0]


def forbidden(row: RowSampling) -> list[int]:
    assert row.bad_words is not None
    scores_V = torch.zeros(len(TEXTS))
    row.bad_words.forbid(scores_V)
    return (scores_V == float("-inf")).nonzero()[:, 0].tolist()


def test_after_a_preemption_bad_words_go_on_from_what_was_generated_and_the_prompt_does_not_count() -> None:
    params = SamplingParams(bad_words=("abc",))
    assert forbidden(admitted(params, [4, 3], 2)) == []  # "ab" is the prompt's
    again = admitted(params, [4, 0, 1], 1)  # "ab" was generated
    assert forbidden(again) == [2]
    row = admitted(params, [4], 1)
    row.take(0)
    row.take(1)
    assert forbidden(row) == [2]
    assert row.history == again.history == [4, 0, 1]


def test_a_processor_that_fails_at_admission_is_told_later() -> None:
    row = admitted(SamplingParams(processors={"p": {}}), [1], 1)
    assert row.failure == RowError("it does not want to", "processor_failed")
    assert not row.is_plain


def test_a_row_without_features_is_plain_and_keeps_no_history() -> None:
    row = admitted(SamplingParams(temperature=0.3, top_p=0.5, logprobs=3, prompt_logprobs=1, min_tokens=2), [1, 2], 2)
    assert row.is_plain
    assert row.history is None


def test_slots_are_scored_only_while_the_row_in_them_asks_for_it() -> None:
    table = SamplingTable(Memory(), 2, 5, Failing())  # type: ignore[arg-type]
    table.admit(AdmittedRow(1, [1], 1, 0, SamplingParams(prompt_logprobs=0), 5))
    assert table.scored_slots == {1}
    table.admit(AdmittedRow(1, [1], 1, 0, SamplingParams(), 5))
    assert table.scored_slots == set()
