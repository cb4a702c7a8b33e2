"""Conformance of logits processors.

    class TestMine(LogitsProcessorConformance):
        processor = "mine"
        accepted = ({"strength": 2.0}, {"strength": 0.5, "window": 20})
        refused = ({"strength": -1.0},)

Letters: V width of the output layer, R rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from infer_api.manifest import LogitsProcessorPlugin
from infer_api.processors import LogitsProcessor, ProcessorContext, RowProcessor
from infer_testkit.plugin import PluginConformance, find_manifest, make_plugin

__all__ = ["LogitsProcessorConformance"]

NUM_PROMPT = 10
LENGTH = 40


class LogitsProcessorConformance(PluginConformance):
    """Fill in `processor`, `accepted` and `refused`; `history` where tokens at random would change no scores."""

    kind = "logits_processors"
    processor: ClassVar[str]
    """Name of the installed plugin."""
    accepted: ClassVar[tuple[Mapping[str, Any], ...]]
    """Parameters of requests, under each of which some scores change in the course of `history`."""
    refused: ClassVar[tuple[Mapping[str, Any], ...]]
    """Parameters that no request may send."""
    width: ClassVar[int] = 97

    def plugin_name(self) -> str:
        return self.processor

    def history(self, rng: torch.Generator) -> list[int]:
        """Forty tokens, ten of them the prompt's; by default of few kinds, so that they repeat."""
        return torch.randint(3, 7, (LENGTH,), generator=rng).tolist()

    def manifest(self) -> LogitsProcessorPlugin:
        """The plugin's manifest."""
        manifest = find_manifest(self.kind, self.processor)
        assert isinstance(manifest, LogitsProcessorPlugin)
        return manifest

    def make_row(self, parameters: Mapping[str, Any]) -> RowProcessor:
        """A row processor for `parameters`, which take the way that those of a request take."""
        plugin: LogitsProcessor = make_plugin(self.kind, self.processor)
        checked = self.manifest().request.model_validate_json(json.dumps(parameters))
        return plugin.row(checked, NUM_PROMPT, ProcessorContext(self.width, torch.device("cpu")))

    def run(self, row: RowProcessor, history: list[int], rng: torch.Generator) -> list[Tensor]:
        """Scores after each step of a text that grows from its prompt to `history`."""
        steps = []
        for length in range(NUM_PROMPT, len(history) + 1):
            scores_V = torch.randn(self.width, generator=rng)
            row(scores_V, history[:length])
            steps.append(scores_V)
        return steps

    # -- parameters -------------------------------------------------------------------------------------

    def test_every_parameter_is_documented(self) -> None:
        fields = self.manifest().request.model_fields
        assert [name for name, field in fields.items() if not field.description] == []

    def test_accepted_parameters_are_in_the_schema_and_stay_the_same_as_plain_data(self) -> None:
        request = self.manifest().request
        known = request.model_json_schema().get("properties", {})
        for parameters in self.accepted:
            assert set(parameters) <= set(known)
            checked = request.model_validate_json(json.dumps(parameters))
            assert request.model_validate_json(json.dumps(checked.model_dump(mode="json"))) == checked

    def test_wrong_and_unknown_parameters_are_refused(self) -> None:
        request = self.manifest().request
        for parameters in (*self.refused, *({**each, "no_such_parameter": 1} for each in self.accepted)):
            try:
                request.model_validate_json(json.dumps(parameters))
            except ValueError:  # pydantic.ValidationError is one
                continue
            pytest.fail(f"{dict(parameters)} is accepted")

    # -- scores -----------------------------------------------------------------------------------------

    def test_scores_change_in_place_and_neither_history_nor_neighbours_do(self, rng: torch.Generator) -> None:
        for parameters in self.accepted:
            row, history = self.make_row(parameters), self.history(rng)
            tokens, changed = list(history), 0
            for length in range(NUM_PROMPT, len(history) + 1):
                scores_RV = torch.randn(3, self.width, generator=rng)
                before_RV, seen = scores_RV.clone(), tokens[:length]
                assert row(scores_RV[1], seen) is None  # type: ignore[func-returns-value]
                assert seen == history[:length]
                assert torch.equal(scores_RV[[0, 2]], before_RV[[0, 2]])
                changed += not torch.equal(scores_RV[1], before_RV[1])
            assert changed, f"{dict(parameters)} changes no scores; are they right, or does it need its own history()?"

    def test_scores_stay_numbers_or_become_minus_infinity(self, rng: torch.Generator) -> None:
        for parameters in self.accepted:
            for scores_V in self.run(self.make_row(parameters), self.history(rng), rng):
                assert not scores_V.isnan().any()
                assert not (scores_V == float("inf")).any()

    def test_what_is_impossible_stays_so(self, rng: torch.Generator) -> None:
        for parameters in self.accepted:
            row, history = self.make_row(parameters), self.history(rng)
            for length in range(NUM_PROMPT, len(history) + 1):
                scores_V = torch.randn(self.width, generator=rng)
                impossible_V = torch.rand(self.width, generator=rng) < 0.2
                scores_V[impossible_V] = float("-inf")
                row(scores_V, history[:length])
                assert (scores_V[impossible_V] == float("-inf")).all()

    def test_the_same_text_gives_the_same_scores(self, rng: torch.Generator) -> None:
        for parameters in self.accepted:
            history, state = self.history(rng), rng.get_state()
            first = self.run(self.make_row(parameters), history, rng)
            rng.set_state(state)
            second = self.run(self.make_row(parameters), history, rng)
            assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))

    def test_a_row_made_anew_from_its_history_goes_on_like_the_old_one(self, rng: torch.Generator) -> None:
        for parameters in self.accepted:
            row, history = self.make_row(parameters), self.history(rng)
            for length in range(NUM_PROMPT, len(history) + 1):
                scores_V = torch.randn(self.width, generator=rng)
                fresh_V = scores_V.clone()
                row(scores_V, history[:length])
                self.make_row(parameters)(fresh_V, history[:length])
                assert torch.equal(scores_V, fresh_V), f"at {length} tokens under {dict(parameters)}"

    def test_a_neighbour_made_by_the_same_plugin_changes_nothing(self, rng: torch.Generator) -> None:
        plugin: LogitsProcessor = make_plugin(self.kind, self.processor)
        context = ProcessorContext(self.width, torch.device("cpu"))
        for parameters in self.accepted:
            checked = self.manifest().request.model_validate_json(json.dumps(parameters))
            row, neighbour = (plugin.row(checked, NUM_PROMPT, context) for _ in range(2))
            history, others = self.history(rng), self.history(rng)
            for length in range(NUM_PROMPT, len(history) + 1):
                scores_V = torch.randn(self.width, generator=rng)
                alone_V = scores_V.clone()
                neighbour(torch.randn(self.width, generator=rng), others[:length])
                row(scores_V, history[:length])
                self.make_row(parameters)(alone_V, history[:length])
                assert torch.equal(scores_V, alone_V)
