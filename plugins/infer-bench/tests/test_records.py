from __future__ import annotations

import json
from typing import Any

import pytest

from infer_bench.records import RequestRecord, StreamError, Tally
from infer_bench.sse import Event


def tallied(*chunks: tuple[float, Any]) -> RequestRecord:
    """The record of a request sent at 10 s; `chunks` are (time, data), the last time is the end."""
    tally, record = Tally(10.0), RequestRecord(0, 0.0, input_tokens=5)
    for now, data in chunks:
        tally.take(Event(data if isinstance(data, bytes) else json.dumps(data).encode()), now)
    tally.fill(record, chunks[-1][0])
    return record


def text(word: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"text": word, "finish_reason": finish}]}


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"delta": fields, "finish_reason": finish}]}


def test_times_are_those_of_pieces_with_text() -> None:
    record = tallied(
        (10.5, text("a")), (10.6, text("")), (10.75, text("b")), (11.0, text("c", "stop")), (11.5, b"[DONE]")
    )
    assert record.ttft_s == pytest.approx(0.5)
    assert record.gaps_s == pytest.approx([0.25, 0.25])
    assert record.e2el_s == pytest.approx(1.5)
    assert (record.output_tokens, record.tokens_from, record.input_tokens) == (3, "chunks", 5)
    assert record.tpot_s == pytest.approx(0.5)


def test_the_role_of_a_chat_answer_is_no_token_and_its_reasoning_is() -> None:
    record = tallied(
        (10.1, delta(role="assistant", content="")),
        (10.2, delta(reasoning_content="hm")),
        (10.4, delta(content="yes")),
        (10.4, delta("stop")),
        (10.4, b"[DONE]"),
    )
    assert record.ttft_s == pytest.approx(0.2)
    assert record.output_tokens == 2


def test_usage_counts_tokens_when_the_server_sends_it() -> None:
    usage = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 6}}
    record = tallied((10.5, text("a", "length")), (11.0, usage), (11.0, b"[DONE]"))
    assert (record.output_tokens, record.tokens_from, record.input_tokens) == (6, "usage", 9)
    assert record.tpot_s == pytest.approx(0.1)


def test_a_token_without_text_shows_when_the_answer_ends() -> None:
    record = tallied((10.3, text("", "length")), (10.4, b"[DONE]"))
    assert record.ttft_s == pytest.approx(0.3)
    assert record.tpot_s is None


def test_an_answer_may_end_without_done_but_not_without_a_reason() -> None:
    assert tallied((10.1, text("a", "stop"))).is_ok
    with pytest.raises(StreamError, match="cut short"):
        tallied((10.1, text("a")))
    with pytest.raises(StreamError, match="empty"):
        tallied((10.1, b"[DONE]"))


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (Event(b'{"error": {"message": "out of luck"}}'), "error event"),
        (Event(b'{"message": "out of luck"}', b"error"), "error event"),
        (Event(b"out of luck"), "broken event"),
        (Event(b"[]"), "broken event"),
    ],
)
def test_an_event_that_tells_of_an_error_is_a_failure_and_no_token(event: Event, kind: str) -> None:
    with pytest.raises(StreamError) as caught:
        Tally(0.0).take(event, 1.0)
    assert caught.value.kind == kind
    assert caught.value.detail
