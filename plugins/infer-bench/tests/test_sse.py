from __future__ import annotations

import pytest

from infer_bench.sse import Event, EventParser

STREAM = b': hello\n\ndata: {"a":1}\n\nevent: error\ndata:two\ndata: lines\n\nid: 3\n\ndata:\xc3\xa9\n\n'
EVENTS = [Event(b'{"a":1}'), Event(b"two\nlines", b"error"), Event(b"\xc3\xa9")]


@pytest.mark.parametrize("newline", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_are_the_same_in_pieces_of_any_size_and_with_any_line_end(newline: bytes, size: int) -> None:
    stream = STREAM.replace(b"\n", newline)
    parser = EventParser()
    found = [event for at in range(0, len(stream), size) for event in parser.feed(stream[at : at + size])]
    assert [*found, *parser.close()] == EVENTS


def test_an_event_is_given_as_soon_as_it_is_whole() -> None:
    parser = EventParser()
    assert parser.feed(b"data: x\n") == []
    assert parser.feed(b"\ndata: y\n\nda") == [Event(b"x"), Event(b"y")]


def test_the_end_of_the_stream_completes_an_event() -> None:
    parser = EventParser()
    assert parser.feed(b"data: [DONE]") == []
    assert parser.close() == [Event(b"[DONE]")]
    assert parser.close() == []


def test_only_one_space_belongs_to_the_field() -> None:
    assert EventParser().feed(b"data:  x \n\n") == [Event(b" x ")]
