from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from infer_api.errors import RequestError
from infer_openai.bodies import ChatBody, CompletionBody, DetokenizeBody


@pytest.mark.parametrize(
    ("body", "fields", "field"),
    [
        (CompletionBody, {"prompt": "a", "stop_token_ids": [1, *[""] * 1000]}, "stop_token_ids"),
        (CompletionBody, {"prompt": "a", "stop": ["a", *[1] * 1000]}, "stop"),
        (ChatBody, {"messages": [{}, *[1] * 1000]}, "messages"),
        (ChatBody, {"messages": [], "tools": [{}, *[1] * 1000]}, "tools"),
        (DetokenizeBody, {"tokens": [1, *[""] * 1000]}, "tokens"),
    ],
)
def test_of_many_wrong_elements_only_the_first_is_described(body: Any, fields: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as caught:
        body(**fields)
    assert [error["loc"] for error in caught.value.errors()] == [(field, 1)]


@pytest.mark.parametrize("wrong", ["", None, True, [], float("inf"), 10**400])
def test_a_bias_that_is_no_number_is_refused_at_the_first(wrong: Any) -> None:
    with pytest.raises(RequestError) as caught:
        CompletionBody(prompt="a", logit_bias={"1": 1, "2": wrong, "3": wrong})
    assert caught.value.param == "logit_bias.2"


def test_biases_are_kept_as_numbers() -> None:
    assert CompletionBody(prompt="a", logit_bias={"1": 1, "2": -0.5}).logit_bias == {"1": 1.0, "2": -0.5}
