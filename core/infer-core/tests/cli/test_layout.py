from __future__ import annotations

import pytest

from infer.cli.layout import NO_TERMINAL, columns, facts, terminal_width


def test_facts_of_a_manifest_read_as_words() -> None:
    data = {"devices": ["*"], "dtypes": ["float16", "float32"], "head_sizes": {"multiple_of": 8, "maximum": 0}, "x": []}
    assert facts(data) == "devices any; dtypes float16, float32; head sizes multiple of 8"
    assert facts({}) == ""
    assert facts({"takes_config": False}) == "takes config False"


def test_two_columns_wrap_the_second_beside_the_first() -> None:
    assert columns([("ab", "one two"), ("c", "three four five six")], 40)[0] == "  ab  one two"
    assert columns([("c", "three four five six seven eight")], 32) == ["  c  three four five six seven", "     eight"]


def test_long_words_push_their_text_below() -> None:
    assert columns([("--a-very-long-flag-indeed", "text")], 40) == ["  --a-very-long-flag-indeed", "      text"]


def test_a_pipe_has_a_fixed_width_whatever_columns_says(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "3")
    assert terminal_width() == NO_TERMINAL
