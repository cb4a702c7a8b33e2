from __future__ import annotations

import io
from typing import Any

import pytest

from infer_api.errors import ConfigError, RequestError
from infer_chat.complete import CompleteCommand
from infer_chat.options import SamplingOptions


def complete(context: Any, prompt: str | None, **options: Any) -> int:
    return CompleteCommand().run(context, {"prompt": prompt}, SamplingOptions(**options))


def test_a_prompt_given_as_an_argument_streams_to_standard_output(
    context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complete(context, "once upon", max_tokens=4) == 0
    assert capsys.readouterr().out == "ONCE UPON\n"
    assert context.outputs.sampled[0].max_tokens == 4


def test_a_prompt_may_come_from_standard_input(
    context: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("a time"))
    complete(context, None)
    assert capsys.readouterr().out == "A TIME\n"


def test_a_terminal_is_not_waited_for(context: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    with pytest.raises(ConfigError, match="infer complete needs a text"):
        complete(context, None)
    assert context.num_open == 0


def test_a_refused_prompt_raises(context: Any) -> None:
    with pytest.raises(RequestError, match="the prompt is bad"):
        complete(context, "bad")
