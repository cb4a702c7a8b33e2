from __future__ import annotations

import io

import pytest


def test_a_prompt_given_as_an_argument_streams_to_standard_output(infer, engine) -> None:
    shown = infer("complete", "once upon", "--max-tokens", "4")
    assert (shown.status, shown.out) == (0, "ONCE UPON\n")
    assert engine.outputs.sampled[0].max_tokens == 4


def test_a_prompt_may_come_from_standard_input(infer, engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a time"))
    assert infer("complete").out == "A TIME\n"


def test_a_terminal_is_not_waited_for(infer, engine, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    shown = infer("complete")
    assert shown.status == 2
    assert "infer complete needs a text" in shown.err


def test_a_refused_prompt_ends_with_status_1(infer, engine) -> None:
    shown = infer("complete", "bad")
    assert shown.status == 1
    assert shown.err == "infer: error: the prompt is bad\n"
