"""Stop strings in streamed text."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["StopMatcher"]


class StopMatcher:
    """Finds the first of several stop strings, and gives out only text that can no longer be part of one.

    The match that is complete first wins; of two that end together, the longer one. So the result does not depend on
    how the text was cut into pieces. Work is a constant per character and stop string (Knuth-Morris-Pratt).

        stops ("aab",), text "aaab":    a  aa  aaa  aaab
                              held:     a  aa   aa        given: a  (at the third letter), then the match
    """

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        assert stops, "a matcher without stop strings"
        assert all(stops), "stop strings are not empty"
        self._patterns = [(stop, _borders(stop)) for stop in dict.fromkeys(stops)]
        self._states = [0] * len(self._patterns)
        self._first_chars = {stop[0] for stop in stops}
        self._include = include
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """(text that is safe to show, the stop string that was found or None). After a match feed no more."""
        if not self._held and self._first_chars.isdisjoint(text):
            return text, None
        whole = self._held + text
        for at, char in enumerate(text, start=len(self._held)):
            matched = self._step(char)
            if matched is not None:
                self._held = ""
                end = at + 1 if self._include else at + 1 - len(matched)
                return whole[:end], matched
        num_safe = len(whole) - max(self._states)
        self._held = whole[num_safe:]
        return whole[:num_safe], None

    def finish(self) -> str:
        """The text still held back, when the sequence has ended without a match; "" the second time."""
        held, self._held = self._held, ""
        return held

    def _step(self, char: str) -> str | None:
        """Advance every pattern by one character; the longest pattern that is complete now."""
        found: str | None = None
        for at, (stop, borders) in enumerate(self._patterns):
            state = self._states[at]
            while state and stop[state] != char:
                state = borders[state - 1]
            state += stop[state] == char
            self._states[at] = state
            if state == len(stop) and (found is None or len(stop) > len(found)):
                found = stop
        return found


def _borders(stop: str) -> list[int]:
    """For each prefix of `stop`, the length of its longest proper prefix that is also its suffix."""
    borders, length = [0], 0
    for char in stop[1:]:
        while length and stop[length] != char:
            length = borders[length - 1]
        length += stop[length] == char
        borders.append(length)
    return borders
