from __future__ import annotations

import math

import pytest

from infer_api.services import LOGPROB_FLOOR, TokenText
from infer_openai.logprobs import LegacyLogprobs, chat_logprobs


def token(text: str, data: bytes, logprob: float = -1.0, top: tuple[TokenText, ...] = ()) -> TokenText:
    return TokenText(1, text, tuple(data), logprob, top)


@pytest.mark.parametrize("impossible", [-math.inf, math.nan])
def test_b14_impossible_logprobs_become_the_floor(impossible: float) -> None:
    tokens = [token("a", b"a", impossible, (token("b", b"b", impossible),))]
    entry = chat_logprobs(tokens)["content"][0]
    assert entry["logprob"] == entry["top_logprobs"][0]["logprob"] == LOGPROB_FLOOR
    part = LegacyLogprobs().part(tokens)
    assert part["token_logprobs"] == [LOGPROB_FLOOR]
    assert part["top_logprobs"] == [{"b": LOGPROB_FLOOR, "a": LOGPROB_FLOOR}]


def test_b13_without_alternatives_the_list_is_empty() -> None:
    entry = chat_logprobs([token("é", "é".encode(), -0.5)])["content"][0]
    assert entry == {"token": "é", "bytes": [195, 169], "logprob": -0.5, "top_logprobs": []}


def test_offsets_go_on_over_parts() -> None:
    report = LegacyLogprobs()
    assert report.part([token("Par", b"Par"), token("is", b"is")])["text_offset"] == [0, 3]
    assert report.part([token("!", b"!")])["text_offset"] == [5]


def test_a_character_of_two_tokens_counts_once() -> None:
    smile = "😀".encode()
    tokens = [token("a", b"a"), token("�", smile[:2]), token("�", smile[2:]), token("b", b"b")]
    assert LegacyLogprobs().part(tokens)["text_offset"] == [0, 1, 1, 2]


def test_of_two_alternatives_with_one_text_the_likelier_is_reported() -> None:
    top = (token("�", b"\xf0", -0.1), token("�", b"\xe2", -3.0))
    assert LegacyLogprobs().part([token("x", b"x", -2.0, top)])["top_logprobs"] == [{"�": -0.1, "x": -2.0}]
