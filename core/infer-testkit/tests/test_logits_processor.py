"""The conformance class finds the faults that it is there for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from infer_api.manifest import LogitsProcessorPlugin
from infer_api.options import Options
from infer_api.processors import ProcessorContext
from infer_testkit import logits_processor
from infer_testkit.logits_processor import LogitsProcessorConformance

Change = Callable[[Tensor, Sequence[int], dict[str, Any]], Any]


class Strength(Options):
    strength: float = 1.0
    """How much."""


def kit(change: Change, monkeypatch: pytest.MonkeyPatch) -> LogitsProcessorConformance:
    """A conformance object for a plugin whose rows call `change` with a dictionary of their own."""

    class Plugin:
        def row(self, parameters: Strength, num_prompt: int, context: ProcessorContext) -> Any:
            state: dict[str, Any] = {}
            return lambda scores_V, token_ids: change(scores_V, token_ids, state)

    manifest = LogitsProcessorPlugin(name="fake", summary="s", implementation="a:B", request=Strength)
    monkeypatch.setattr(logits_processor, "find_manifest", lambda kind, name: manifest)
    monkeypatch.setattr(logits_processor, "make_plugin", lambda kind, name: Plugin())
    fields = {"processor": "fake", "accepted": ({"strength": 2.0},), "refused": ({"strength": "much"},)}
    return type("Kit", (LogitsProcessorConformance,), fields)()  # type: ignore[no-any-return]


def lower_seen(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    scores_V[list(set(token_ids))] -= 2.0


def replace(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> Tensor:
    return scores_V - 1.0


def touch_neighbours(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    whole = scores_V._base if scores_V._base is not None else scores_V
    whole.sub_(1.0)


def count_calls(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    state["calls"] = state.get("calls", 0) + 1
    scores_V[0] -= state["calls"]


def revive(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    scores_V.fill_(1.0)


def divide_by_zero(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    scores_V.div_(0.0)


def change_history(scores_V: Tensor, token_ids: Any, state: dict[str, Any]) -> None:
    scores_V[0] = 0.0
    token_ids.append(1)


def do_nothing(scores_V: Tensor, token_ids: Sequence[int], state: dict[str, Any]) -> None:
    return


CHECKS = {
    "place": "test_scores_change_in_place_and_neither_history_nor_neighbours_do",
    "numbers": "test_scores_stay_numbers_or_become_minus_infinity",
    "impossible": "test_what_is_impossible_stays_so",
    "same": "test_the_same_text_gives_the_same_scores",
    "anew": "test_a_row_made_anew_from_its_history_goes_on_like_the_old_one",
}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (replace, "place"),
        (touch_neighbours, "place"),
        (change_history, "place"),
        (do_nothing, "place"),
        (divide_by_zero, "numbers"),
        (revive, "impossible"),
        (count_calls, "anew"),
    ],
)
def test_a_fault_is_found(change: Change, check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        getattr(kit(change, monkeypatch), CHECKS[check])(torch.Generator())


def test_chance_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = torch.Generator().manual_seed(1)
    made = kit(lambda scores_V, ids, state: scores_V.add_(torch.rand(1, generator=chance)), monkeypatch)
    with pytest.raises(AssertionError):
        made.test_the_same_text_gives_the_same_scores(torch.Generator())


def test_a_good_one_passes_every_check(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kit(lower_seen, monkeypatch)
    for check in CHECKS.values():
        getattr(made, check)(torch.Generator())
    made.test_wrong_and_unknown_parameters_are_refused()
    made.test_accepted_parameters_are_in_the_schema_and_stay_the_same_as_plain_data()


def test_parameters_that_should_be_refused_and_are_not_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    made = kit(lower_seen, monkeypatch)
    made.__class__.refused = ({"strength": 3.0},)
    with pytest.raises(pytest.fail.Exception, match=r"'strength': 3\.0"):
        made.test_wrong_and_unknown_parameters_are_refused()
