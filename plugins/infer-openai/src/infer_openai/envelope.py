"""What surrounds choices: ids, model, fingerprint and usage, in whole replies and in chunks of a stream.

A chunk is put together from prepared bytes and the encoded text: a few microseconds, where dumping a
response model would take a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from infer_api.services import ReplyFinish, Usage

__all__ = ["DONE", "Envelope", "Head", "encode"]

DONE = b"data: [DONE]\n\n"

encode = msgspec.json.encode


@dataclass(frozen=True)
class Head:
    """What all chunks of a reply share."""

    id: str
    created_s: int
    model: str
    fingerprint: str


class Envelope:
    """Writes whole replies and chunks of one request. `kind` is the reply's `object`, `chunk_kind` that of a chunk."""

    def __init__(self, head: Head, kind: str, chunk_kind: str, *, with_usage: bool) -> None:
        self._head = head
        self._kind = kind
        self._with_usage = with_usage
        common = encode(self._fields(chunk_kind))[:-1]
        self._open = b"data: " + common + b',"choices":[{"index":'
        self._close = b'}],"usage":null}\n\n' if with_usage else b"}]}\n\n"
        self._open_usage = b"data: " + common + b',"choices":[],"usage":'

    def whole(self, choices: list[dict[str, Any]], usage: Usage) -> bytes:
        """The body of a reply that is not streamed."""
        return encode({**self._fields(self._kind), "choices": choices, "usage": _counts(usage)})

    def chunk(self, index: int, content: bytes, logprobs: Any = None) -> bytes:
        """An event with new content of choice `index`; `content` is one or more encoded members of the choice."""
        report = b"null" if logprobs is None else encode(logprobs)
        return b'%b%d,%b,"logprobs":%b,"finish_reason":null%b' % (self._open, index, content, report, self._close)

    def last_chunk(self, index: int, content: bytes, reason: ReplyFinish, stop_reason: str | int | None) -> bytes:
        """The event that ends choice `index`."""
        ending = encode({"logprobs": None, "finish_reason": reason, "stop_reason": stop_reason})[1:-1]
        return b"%b%d,%b,%b%b" % (self._open, index, content, ending, self._close)

    def usage_chunk(self, usage: Usage) -> bytes:
        """The event with the token counts; nothing when the client did not ask for it."""
        return b"%b%b}\n\n" % (self._open_usage, encode(_counts(usage))) if self._with_usage else b""

    def _fields(self, kind: str) -> dict[str, Any]:
        head = self._head
        return {
            "id": head.id,
            "object": kind,
            "created": head.created_s,
            "model": head.model,
            "system_fingerprint": head.fingerprint,
        }


def _counts(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
