from __future__ import annotations

import math
from typing import Annotated

import pytest
from pydantic import Field

from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.pluginset import PinnedPlugin, PluginSet
from infer.service.processors import FIELD, ProcessorOffer, check_processors, processor_offers
from infer_api.errors import PluginError, RequestError
from infer_api.options import Options


class Window(Options):
    size: Annotated[int, Field(gt=0)]
    """Tokens."""
    weights: tuple[float, ...] = (1.0,)


OFFER = ProcessorOffer("window", Window.model_json_schema(), lambda: Window)
KNOWN = {"window": OFFER.check}


def refused(given, known=KNOWN) -> RequestError:
    with pytest.raises(RequestError) as caught:
        check_processors(given, known)
    assert caught.value.status == 400
    return caught.value


def test_parameters_become_plain_data_with_defaults() -> None:
    assert check_processors({"window": {"size": 3}}, KNOWN) == {"window": {"size": 3, "weights": [1.0]}}
    assert check_processors({"window": {"size": 3, "weights": [2, 0.5]}}, KNOWN)["window"]["weights"] == [2.0, 0.5]


@pytest.mark.parametrize(
    ("parameters", "param", "words"),
    [
        ({"size": 0}, "logits_processors.window.size", "greater than 0"),
        ({"size": "x"}, "logits_processors.window.size", "found 'x'"),
        ({}, "logits_processors.window.size", "required"),
        ({"size": 1, "sise": 2}, "logits_processors.window.sise", "Did you mean 'size'?"),
        ({"size": 1, "weights": [1, "a"]}, "logits_processors.window.weights.1", "number"),
        ({"size": 10**30}, "logits_processors.window", "serialize"),
        ({"size": math.nan}, "logits_processors.window", "JSON"),
        (5, "logits_processors.window", "an object of parameters"),
        (None, "logits_processors.window", "an object of parameters"),
    ],
)
def test_a_wrong_parameter_is_named(parameters, param, words) -> None:
    error = refused({"window": parameters})
    assert error.param == param
    assert words in error.message


def test_an_unknown_processor_is_named_with_those_there_are() -> None:
    error = refused({"windo": {}})
    assert (error.param, error.code) == ("logits_processors.windo", "unknown_processor")
    assert "Did you mean 'window'?" in error.message
    assert "this server has none" in refused({"windo": {}}, {}).message
    assert refused(["window"]).param == FIELD


def test_offers_are_the_chosen_plugins_and_load_when_they_are_asked() -> None:
    def record(name: str) -> PluginRecord:
        return PluginRecord(FIELD, name, "acme", "1.0", "acme", {"request": {"title": name}}, "compatible")

    failed = PluginRecord(FIELD, "bad", "broken", "1.0", "broken", {}, "failed", "its manifest is missing")
    index = PluginIndex([record("one"), record("two"), failed])
    pinned = PinnedPlugin(FIELD, "two", "acme", "1.0", "acme", "acme:Two", request_class="no_such_module_here:Two")
    (offer,) = processor_offers(index, PluginSet((pinned,)))
    assert (offer.name, offer.schema) == ("two", {"title": "two"})
    with pytest.raises(PluginError, match="'two' of acme 1.0"):
        offer.check({})
