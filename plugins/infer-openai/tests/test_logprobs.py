from __future__ import annotations

import math
from itertools import pairwise

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
    part = LegacyLogprobs().part(tokens, "a")
    assert part["token_logprobs"] == [LOGPROB_FLOOR]
    assert part["top_logprobs"] == [{"b": LOGPROB_FLOOR, "a": LOGPROB_FLOOR}]


def test_b13_without_alternatives_the_list_is_empty() -> None:
    entry = chat_logprobs([token("é", "é".encode(), -0.5)])["content"][0]
    assert entry == {"token": "é", "bytes": [195, 169], "logprob": -0.5, "top_logprobs": []}


def test_offsets_go_on_over_parts() -> None:
    report = LegacyLogprobs()
    assert report.part([token("Par", b"Par"), token("is", b"is")], "Paris")["text_offset"] == [0, 3]
    assert report.part([token("!", b"!")], "!")["text_offset"] == [5]


def test_a_character_of_two_tokens_counts_once() -> None:
    smile = "😀".encode()
    tokens = [token("a", b"a"), token("�", smile[:2]), token("�", smile[2:]), token("b", b"b")]
    assert LegacyLogprobs().part(tokens, "a😀b")["text_offset"] == [0, 1, 1, 2]


def test_of_two_alternatives_with_one_text_the_likelier_is_reported() -> None:
    top = (token("�", b"\xf0", -0.1), token("�", b"\xe2", -3.0))
    assert LegacyLogprobs().part([token("x", b"x", -2.0, top)], "x")["top_logprobs"] == [{"�": -0.1, "x": -2.0}]


def test_a_token_that_the_text_does_not_show_takes_no_room() -> None:
    hidden = token("<|end|>", b"<|end|>")
    report = LegacyLogprobs()
    assert report.part([hidden, token("a", b"a"), hidden, token("b", b"b")], "ab")["text_offset"] == [0, 0, 1, 1]
    assert report.part([token("c", b"c"), hidden, hidden], "c")["text_offset"] == [2, 3, 3]


def test_a_special_token_that_is_shown_takes_its_room() -> None:
    tokens = [token("<|end|>", b"<|end|>"), token("a", b"a")]
    assert LegacyLogprobs().part(tokens, "<|end|>a")["text_offset"] == [0, 7]


@pytest.mark.parametrize("cut", [b"\xe2", b"\xe2\x82", b"\xf0\x9f\x98"])
def test_after_a_character_that_was_broken_off_offsets_slice_the_text(cut: bytes) -> None:
    tokens = [token("a", b"a"), token("�", cut), token("bc", b"bc"), token("d", b"d")]
    text = b"".join(bytes(each.bytes) for each in tokens).decode("utf-8", "replace")
    offsets = LegacyLogprobs().part(tokens, text)["text_offset"]
    assert [text[start:end] for start, end in pairwise([*offsets, None])] == ["a", "�", "bc", "d"]


def test_a_hidden_token_within_a_character_does_not_break_it() -> None:
    smile = "😀".encode()
    tokens = [token("�", smile[:2]), token("<s>", b"<s>"), token("�", smile[2:]), token("b", b"b")]
    assert LegacyLogprobs().part(tokens, "😀b")["text_offset"] == [0, 0, 0, 1]


def test_a_text_without_the_space_of_its_first_token_is_followed() -> None:
    tokens = [token(" Par", b" Par"), token(" is", b" is"), token("!", b"!")]
    assert LegacyLogprobs().part(tokens, "Par is!")["text_offset"] == [0, 3, 6]


def test_a_token_whose_end_is_held_back_takes_its_whole_room() -> None:
    report = LegacyLogprobs()
    assert report.part([token("hello", b"hello")], "hel")["text_offset"] == [0]
    assert report.part([token("!", b"!")], "lo!")["text_offset"] == [5]
