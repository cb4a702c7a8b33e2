from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infer.text.stop import StopMatcher


def run(pieces, stops, *, include: bool = False) -> tuple[list[str], str | None]:
    """What was given out for each piece (and at the end), and the match."""
    matcher, given_out = StopMatcher(stops, include=include), []
    for piece in pieces:
        text, matched = matcher.feed(piece)
        given_out.append(text)
        if matched is not None:
            return given_out, matched
    return [*given_out, matcher.finish()], None


def reference(text: str, stops) -> tuple[str, str | None]:
    """The match that is complete first, of those the longest."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            longest = max(ending, key=len)
            return text[: end - len(longest)], longest
    return text, None


def test_a_stop_string_over_piece_borders_does_not_leak_its_start() -> None:
    """B19."""
    given_out, matched = run(["Seven", " gr", "een", " bot", "tles"], ["een bot"])
    assert "".join(given_out) == "Seven gr"
    assert matched == "een bot"


@pytest.mark.parametrize(
    ("pieces", "stops", "text", "matched"),
    [
        (["some tea", "?"], ["?!"], "some tea?", None),
        (["a", "b"], ["abc"], "ab", None),
        (["aX", "Yb"], ["XY"], "a", "XY"),
        (["a", "a", "a", "b"], ["aab"], "a", "aab"),
        (["aaab"], ["aab"], "a", "aab"),
    ],
)
def test_held_back_text_is_neither_lost_nor_repeated(pieces, stops, text, matched) -> None:
    """B20."""
    given_out, found = run(pieces, stops)
    assert ("".join(given_out), found) == (text, matched)


def test_held_back_text_comes_out_once() -> None:
    matcher = StopMatcher(["?!"])
    assert matcher.feed("tea?") == ("tea", None)
    assert (matcher.finish(), matcher.finish()) == ("?", "")


def test_only_what_may_begin_a_stop_string_is_held() -> None:
    matcher = StopMatcher(["abab"])
    assert matcher.feed("xaba") == ("x", None)
    assert matcher.feed("c") == ("abac", None)


def test_the_first_match_in_the_text_wins_whatever_the_order_of_stops() -> None:
    assert run(["one two"], ["two", "one"]) == ([""], "one")


def test_of_two_that_end_together_the_longer_one_counts() -> None:
    assert run(["xab"], ["b", "ab"]) == (["x"], "ab")


def test_the_stop_string_may_be_included() -> None:
    assert run(["say S", "TOP now"], ["STOP"], include=True) == (["say ", "STOP"], "STOP")


@settings(max_examples=300, deadline=None)
@given(
    text=st.text("ab", max_size=30),
    stops=st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3),
    cuts=st.lists(st.integers(0, 30), max_size=8),
)
def test_any_cut_of_any_text_gives_what_the_plain_search_gives(text, stops, cuts) -> None:
    edges = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[left:right] for left, right in zip(edges, edges[1:], strict=False)]
    given_out, matched = run(pieces, stops)
    assert ("".join(given_out), matched) == reference(text, stops)
