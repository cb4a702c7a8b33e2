from __future__ import annotations

import builtins
from collections.abc import Iterator

import pytest

from infer.cli.chat import TurnStats


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch):
    """Makes the user type these lines, then leave."""

    def set_lines(*lines: str) -> None:
        rest: Iterator[str] = iter(lines)

        def read(prompt: str = "") -> str:
            try:
                return next(rest)
            except StopIteration:
                raise EOFError from None

        monkeypatch.setattr(builtins, "input", read)

    return set_lines


def test_answers_stream_and_the_history_grows(infer, engine, say) -> None:
    say("hello there", "", "again", "/exit", "never asked")
    shown = infer("chat", "--system", "be loud")
    assert shown.status == 0
    assert "HELLO THERE\n" in shown.out
    assert "AGAIN\n" in shown.out
    assert engine.renderer.seen[-1] == [
        {"role": "system", "content": "be loud"},
        {"role": "user", "content": "hello there"},
        {"role": "assistant", "content": "HELLO THERE"},
        {"role": "user", "content": "again"},
    ]


def test_clear_forgets_everything_but_the_system_message(infer, engine, say) -> None:
    say("one", "/clear", "two")
    infer("chat", "--system", "s")
    assert engine.renderer.seen[-1] == [{"role": "system", "content": "s"}, {"role": "user", "content": "two"}]


def test_stats_tell_speed_and_time_to_the_first_token(infer, engine, say) -> None:
    say("/stats", "a b c", "/stats")
    shown = infer("chat").out
    assert "Nothing was answered yet." in shown
    assert "last answer: 3 prompt tokens, 3 new, " in shown
    assert "tokens/s, first after" in shown
    assert "all 1: 3 new tokens" in shown


def test_help_and_unknown_commands_list_the_commands(infer, engine, say) -> None:
    say("/help", "/nonsense")
    shown = infer("chat").out
    assert shown.count("/clear  forget the conversation") == 2
    assert "unknown command /nonsense" in shown
    assert engine.renderer.seen == []


def test_a_refused_question_does_not_end_the_chat_and_is_not_kept(infer, engine, say) -> None:
    say("bad", "good")
    shown = infer("chat").out
    assert "refused: the prompt is bad" in shown
    assert engine.renderer.seen[-1] == [{"role": "user", "content": "good"}]


def test_an_interrupted_answer_stays_in_the_history(infer, engine, say) -> None:
    engine.outputs.interrupt = True
    say("one two", "three")
    shown = infer("chat")
    assert shown.status == 0
    assert "[stopped]" in shown.out
    assert engine.renderer.seen[-1][1] == {"role": "assistant", "content": "ONE"}


def test_flags_win_over_the_checkpoint_s_sampling(infer, engine, say) -> None:
    say("x")
    infer("chat", "--temperature", "0", "--max-tokens", "9")
    (sampling,) = engine.outputs.sampled
    assert (sampling.temperature, sampling.max_tokens, sampling.top_k) == (0.0, 9, 7)


def test_the_speed_of_decoding_leaves_out_the_first_token() -> None:
    stats = TurnStats(prompt_tokens=5, completion_tokens=11, first_s=1.0, total_s=3.0)
    assert stats.tokens_per_s == 5.0
    assert "5.0 tokens/s, first after 1000 ms" in str(stats)
    assert TurnStats(completion_tokens=1, first_s=1.0, total_s=1.0).tokens_per_s == 0.0
