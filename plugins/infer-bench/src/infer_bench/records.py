"""What is known of one request, and how it becomes known from the events of its stream."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from infer_bench.sse import Event

__all__ = ["RequestRecord", "StreamError", "Tally"]

_TEXT_FIELDS = ("content", "reasoning_content", "reasoning", "tool_calls", "refusal")


class StreamError(Exception):
    """The request failed; the first argument is its kind, for counting, the second one says more."""

    @property
    def kind(self) -> str:
        return str(self.args[0])

    @property
    def detail(self) -> str:
        return str(self.args[1])


@dataclass
class RequestRecord:
    """One request. Times in seconds, `planned_s` and `sent_s` from the start of the run, the others from sending.

    `ttft_s` is the time to the first text, `gaps_s` are those between further pieces of text (a piece may carry more
    than one token), `e2el_s` is the time to the end of the stream.
    """

    index: int
    planned_s: float
    sent_s: float = 0.0
    ttft_s: float | None = None
    e2el_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_from: Literal["usage", "chunks"] = "chunks"
    error: str = ""
    detail: str = ""

    @property
    def is_ok(self) -> bool:
        return not self.error

    @property
    def tpot_s(self) -> float | None:
        """Seconds per token after the first; None where there is no other."""
        if self.ttft_s is None or self.output_tokens < 2:
            return None
        return (self.e2el_s - self.ttft_s) / (self.output_tokens - 1)


class Tally:
    """Reads the chunks of one stream. Times are those of `time.perf_counter()`."""

    def __init__(self, sent: float) -> None:
        self._sent = sent
        self._text_times: list[float] = []
        self._usage: dict[str, Any] = {}
        self._finish_time: float | None = None
        self._has_finished = False
        self.is_done = False

    def take(self, event: Event, now: float) -> None:
        """Count one event. Raises StreamError for one that tells of an error, or is no JSON object."""
        if event.data == b"[DONE]":
            self.is_done = True
            return
        try:
            chunk = json.loads(event.data)
        except ValueError as error:
            raise StreamError("broken event", f"{event.data[:200]!r} is no JSON") from error
        if not isinstance(chunk, dict):
            raise StreamError("broken event", f"{event.data[:200]!r} is no JSON object")
        if event.name == b"error" or chunk.get("error"):
            raise StreamError("error event", json.dumps(chunk.get("error", chunk))[:400])
        self._usage = chunk.get("usage") or self._usage
        for choice in chunk.get("choices") or ():
            self._take_choice(choice, now)

    def _take_choice(self, choice: dict[str, Any], now: float) -> None:
        delta = choice.get("delta")
        has_text = choice.get("text") if delta is None else any(delta.get(name) for name in _TEXT_FIELDS)
        if has_text:
            self._text_times.append(now)
        if choice.get("finish_reason"):
            self._has_finished = True
            self._finish_time = self._finish_time or now

    def fill(self, record: RequestRecord, ended: float) -> None:
        """Write what was counted into `record`. Raises StreamError for a stream that stopped before its end."""
        times = self._text_times
        record.e2el_s = ended - self._sent
        record.gaps_s = [after - before for before, after in pairwise(times)]
        record.output_tokens = len(times)
        # A token without text of its own (half a character, a special one) shows when the answer ends.
        first = times[0] if times else self._finish_time
        record.ttft_s = None if first is None else first - self._sent
        if isinstance(self._usage.get("completion_tokens"), int):
            record.output_tokens, record.tokens_from = self._usage["completion_tokens"], "usage"
        record.input_tokens = self._usage.get("prompt_tokens") or record.input_tokens
        if not (self.is_done or self._has_finished):
            raise StreamError("cut short", f"the stream ended after {len(times)} pieces of text, without [DONE]")
        if record.ttft_s is None:
            raise StreamError("empty", "the stream ended without a token")
