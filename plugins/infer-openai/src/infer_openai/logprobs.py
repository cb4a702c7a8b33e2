"""Reports of token probabilities, in the shape of chat completions and in that of completions."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from infer_api.services import LOGPROB_FLOOR, TokenText

__all__ = ["LegacyLogprobs", "chat_logprobs"]


def chat_logprobs(tokens: Sequence[TokenText]) -> dict[str, Any]:
    """`{"content": [{token, bytes, logprob, top_logprobs}], "refusal": null}`."""
    content = [{**_entry(token), "top_logprobs": [_entry(other) for other in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


class LegacyLogprobs:
    """`{tokens, token_logprobs, top_logprobs, text_offset}` of one choice, part by part.

    `text_offset` counts characters of the text before a token. Tokens may end within a character, so offsets follow
    the bytes; a token of text that is never completed starts where that text would.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_chars = 0

    def part(self, tokens: Sequence[TokenText]) -> dict[str, Any]:
        """The report on the next tokens."""
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [_floored(token.logprob) for token in tokens],
            "top_logprobs": [_by_text(token) for token in tokens],
            "text_offset": [self._offset(token) for token in tokens],
        }

    def _offset(self, token: TokenText) -> int:
        offset = self._num_chars
        self._num_chars += len(self._decoder.decode(bytes(token.bytes)))
        return offset


def _by_text(token: TokenText) -> dict[str, float]:
    """Alternatives and the token itself. Two tokens may have one text (halves of characters): the likelier stays."""
    scores: dict[str, float] = {}
    for each in (*token.top, token):
        scores[each.text] = max(scores.get(each.text, LOGPROB_FLOOR), _floored(each.logprob))
    return scores


def _entry(token: TokenText) -> dict[str, Any]:
    return {"token": token.text, "logprob": _floored(token.logprob), "bytes": list(token.bytes)}


def _floored(logprob: float) -> float:
    return logprob if logprob > LOGPROB_FLOOR else LOGPROB_FLOOR  # written so that NaN is floored, too
