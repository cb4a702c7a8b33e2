"""Server-sent events from bytes that arrive in any pieces."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Event", "EventParser"]


@dataclass(frozen=True, slots=True)
class Event:
    """One event. `name` is b"" unless the server named it."""

    data: bytes
    name: bytes = b""


class EventParser:
    """Feed it what the socket gives; it returns the events that are whole by then.

    Knows all three line ends, also split between two pieces, comments, fields without a space, and data of several
    lines. What comes after the last blank line is an event only if `close` says that the stream has ended.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False
        self._data: list[bytes] = []
        self._name = b""

    def feed(self, piece: bytes) -> list[Event]:
        """Events completed by `piece`."""
        lines = (self._rest + self._with_newlines(piece)).split(b"\n")
        self._rest = lines.pop()
        return self._take(lines)

    def close(self) -> list[Event]:
        """The event that the end of the stream completes, if any."""
        lines, self._rest = [self._rest, b""], b""
        return self._take(lines)

    def _with_newlines(self, piece: bytes) -> bytes:
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_cr = False
        if piece:
            self._after_cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece

    def _take(self, lines: list[bytes]) -> list[Event]:
        events = []
        for line in lines:
            if line:
                self._take_field(line)
                continue
            if self._data:
                events.append(Event(b"\n".join(self._data), self._name))
            self._data, self._name = [], b""
        return events

    def _take_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
