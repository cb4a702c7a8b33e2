from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infer_chat.chat import ChatCommand
from infer_chat.options import ChatOptions

Shown = Callable[..., str]


@pytest.fixture
def chat(context: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Runs the command for a user who types these lines and then leaves; gives what was printed."""

    def run(*lines: str, **options: Any) -> str:
        rest: Iterator[str] = iter(lines)

        def read(prompt: str = "") -> str:
            try:
                return next(rest)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(builtins, "input", read)
        assert ChatCommand().run(context, {"model": None}, ChatOptions(**options)) == 0
        return capsys.readouterr().out

    return run


def test_answers_stream_and_the_history_grows(chat: Shown, context: Any) -> None:
    shown = chat("hello there", "", "again", "/exit", "never asked", system="be loud")
    assert "tiny: 128 tokens." in shown
    assert "HELLO THERE\n" in shown
    assert "AGAIN\n" in shown
    assert context.renderer.seen[-1] == [
        {"role": "system", "content": "be loud"},
        {"role": "user", "content": "hello there"},
        {"role": "assistant", "content": "HELLO THERE"},
        {"role": "user", "content": "again"},
    ]


def test_clear_forgets_everything_but_the_system_message(chat: Shown, context: Any) -> None:
    chat("one", "/clear", "two", system="s")
    assert context.renderer.seen[-1] == [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}]


def test_stats_tell_speed_and_time_to_the_first_token(chat: Shown) -> None:
    shown = chat("/stats", "a b c", "/stats")
    assert "Nothing was answered yet." in shown
    assert "last answer: 3 prompt tokens, 3 new, " in shown
    assert "tokens/s, first after" in shown
    assert "all 1: 3 new tokens" in shown


def test_help_and_unknown_commands_list_the_commands(chat: Shown, context: Any) -> None:
    shown = chat("/help", "/nonsense")
    assert shown.count("/clear  forget the conversation") == 2
    assert "unknown command /nonsense" in shown
    assert context.renderer.seen == []


def test_a_refused_question_does_not_end_the_chat_and_is_not_kept(chat: Shown, context: Any) -> None:
    assert "refused: the prompt is bad" in chat("bad", "good")
    assert context.renderer.seen[-1] == [{"role": "user", "content": "good"}]


def test_an_interrupted_answer_stays_in_the_history(chat: Shown, context: Any) -> None:
    context.outputs.interrupt = True
    assert "[stopped]" in chat("one two", "three")
    assert context.renderer.seen[-1][1] == {"role": "assistant", "content": "ONE"}


def test_flags_reach_the_engine(chat: Shown, context: Any) -> None:
    chat("x", temperature=0, max_tokens=9)
    (sampling,) = context.outputs.sampled
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k) == (0.0, 9, 7)
