from __future__ import annotations

import pytest

from infer_api.errors import RequestError
from infer_openai.bodies import ChatBody, CompletionBody
from infer_openai.screening import IRRELEVANT, UNSUPPORTED, screen


def test_null_means_that_the_field_was_not_sent() -> None:
    assert screen({"top_p": None, "top_k": 3, "suffix": None}, {"top_p", "top_k"}) == {"top_k": 3}


@pytest.mark.parametrize("name", sorted(IRRELEVANT))
def test_fields_that_change_nothing_are_dropped(name: str) -> None:
    assert screen({name: {"any": "thing"}}, ()) == {}


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_fields_that_would_change_the_answer_are_refused_by_name(name: str) -> None:
    with pytest.raises(RequestError, match=f"^{name} is not supported") as caught:
        screen({name: {"some": "value"}}, ())
    assert (caught.value.param, caught.value.code, caught.value.status) == (name, "unsupported_parameter", 400)


@pytest.mark.parametrize(("name", "neutral"), [(n, v[0]) for n, v in sorted(UNSUPPORTED.items()) if v])
def test_their_neutral_value_passes(name: str, neutral: object) -> None:
    assert screen({name: neutral}, ()) == {}


def test_a_field_that_nobody_knows_is_named_with_the_nearest_one() -> None:
    with pytest.raises(RequestError, match=r"'temperatures'; did you mean temperature\?") as caught:
        screen({"temperatures": 1}, ChatBody.model_fields)
    assert (caught.value.param, caught.value.code) == ("temperatures", "unknown_parameter")


def test_what_is_read_is_neither_dropped_nor_refused() -> None:
    known = {*ChatBody.model_fields, *CompletionBody.model_fields}
    assert not known & IRRELEVANT
    # A completion reads these two; in a chat they are refused.
    assert known & UNSUPPORTED.keys() == {"echo", "best_of"}
