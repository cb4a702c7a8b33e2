from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from pydantic import BaseModel, ConfigDict
from torch import Tensor

from infer.runner.processors import Processors
from infer_api.errors import PluginError
from infer_api.processors import ProcessorContext
from infer_api.requests import RowError

CONTEXT = ProcessorContext(10, torch.device("cpu"))


class Shift(BaseModel):
    model_config = ConfigDict(extra="forbid")

    ids: tuple[int, ...]
    by: float = 1.0


@dataclass
class Plugin:
    label: str

    def row(self, parameters: Shift, num_prompt: int, context: ProcessorContext) -> Any:
        if num_prompt > 100:
            raise RuntimeError("too long for me")

        def change(scores_V: Tensor, token_ids: list[int]) -> None:
            scores_V[list(parameters.ids)] += parameters.by

        change.told = (self.label, parameters, num_prompt, context)  # type: ignore[attr-defined]
        return change


class Shelf:
    """A plugin set with processors of two distributions."""

    def make(self, kind: str, name: str) -> Plugin:
        assert kind == "logits_processors"
        if name == "mine/broken":
            raise PluginError("it does not start")
        return Plugin(name)

    def request_class(self, kind: str, name: str) -> type[Shift]:
        return Shift


def processors(*names: str) -> Processors:
    return Processors(names, Shelf(), CONTEXT)  # type: ignore[arg-type]


@pytest.mark.parametrize("asked", ["shift", "mine/shift"])
def test_a_row_gets_the_parameters_as_their_class_and_the_context(asked: str) -> None:
    made = processors("mine/shift").rows({asked: {"ids": [2, 3]}}, 7)
    assert not isinstance(made, RowError)
    [(name, row)] = made
    assert name == asked
    assert row.told == ("mine/shift", Shift(ids=(2, 3)), 7, CONTEXT)  # type: ignore[attr-defined]


def test_several_come_in_the_order_of_the_request() -> None:
    made = processors("mine/a", "mine/b").rows({"b": {"ids": []}, "a": {"ids": []}}, 1)
    assert not isinstance(made, RowError)
    assert [name for name, _ in made] == ["b", "a"]


@pytest.mark.parametrize(
    ("asked", "num_prompt", "said"),
    [
        ({"shift": {"ids": []}}, 101, "'shift' failed: RuntimeError: too long for me"),
        ({"shift": {"idds": []}}, 1, "'shift' failed: ValidationError"),
        ({"other": {}}, 1, "'other' is not loaded"),
    ],
)
def test_what_goes_wrong_is_an_error_of_the_row(asked: dict[str, Any], num_prompt: int, said: str) -> None:
    error = processors("mine/shift").rows(asked, num_prompt)
    assert isinstance(error, RowError)
    assert (error.code, error.status) == ("processor_failed", 500)
    assert said in error.message


def test_a_plugin_that_does_not_start_ends_the_start() -> None:
    with pytest.raises(PluginError, match="does not start"):
        processors("mine/broken")
