from __future__ import annotations

import json
import time
from typing import Any

import pytest

from infer_api.services import TextDelta, Usage
from infer_openai.envelope import Envelope, Head
from infer_openai.shapes import ChatShape

HEAD = Head('id"1', 5, "mödel", "fp")


def parsed(data: bytes) -> dict[str, Any]:
    assert data.startswith(b"data: ")
    assert data.endswith(b"\n\n")
    return json.loads(data[6:])


@pytest.mark.parametrize("with_usage", [False, True])
def test_prepared_bytes_are_the_json_of_the_same_object(with_usage: bool) -> None:
    envelope = Envelope(HEAD, "whole", "chunk", with_usage=with_usage)
    common = {"id": 'id"1', "object": "chunk", "created": 5, "model": "mödel", "system_fingerprint": "fp"}
    usage = {"usage": None} if with_usage else {}
    middle = {"index": 12, "text": "x", "logprobs": {"a": [1]}, "finish_reason": None}
    assert parsed(envelope.chunk(12, b'"text":"x"', {"a": [1]})) == {**common, "choices": [middle], **usage}
    last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop", "stop_reason": 'a"b'}
    assert parsed(envelope.last_chunk(0, b'"delta":{}', "stop", 'a"b')) == {**common, "choices": [last], **usage}


def test_the_usage_chunk_exists_only_when_asked_for() -> None:
    usage = Usage(3, 4, cached_tokens=1)
    assert Envelope(HEAD, "w", "c", with_usage=False).usage_chunk(usage) == b""
    chunk = parsed(Envelope(HEAD, "w", "c", with_usage=True).usage_chunk(usage))
    assert chunk["choices"] == []
    assert chunk["usage"] == {
        "prompt_tokens": 3,
        "completion_tokens": 4,
        "total_tokens": 7,
        "prompt_tokens_details": {"cached_tokens": 1},
    }


def test_a_chunk_takes_well_under_60_microseconds() -> None:
    shape = ChatShape(HEAD, with_usage=True, with_logprobs=False)
    events = [TextDelta(0, f" token{i} with ünicode\n") for i in range(2000)]
    best_s = min(_time_of(shape, events) for _ in range(5))
    assert best_s / len(events) < 60e-6


def _time_of(shape: ChatShape, events: list[TextDelta]) -> float:
    started = time.process_time()
    for event in events:
        shape.chunk(event)
    return time.process_time() - started
