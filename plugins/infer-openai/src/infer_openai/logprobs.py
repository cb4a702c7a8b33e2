"""Reports of token probabilities, in the shape of chat completions and in that of completions."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from infer_api.services import LOGPROB_FLOOR, TokenText

__all__ = ["LegacyLogprobs", "chat_logprobs", "prompt_logprobs", "with_fewer"]


def chat_logprobs(tokens: Sequence[TokenText]) -> dict[str, Any]:
    """`{"content": [{token, bytes, logprob, top_logprobs}], "refusal": null}`."""
    content = [{**_entry(token), "top_logprobs": [_entry(other) for other in token.top]} for token in tokens]
    return {"content": content, "refusal": None}


def prompt_logprobs(tokens: Sequence[TokenText], num_top: int) -> list[dict[str, Any] | None]:
    """One entry per token of the prompt: token id → logprob, rank and text, of the most likely tokens and its own.

    None for the first token. `rank` counts from 1, and is None beyond the most likely tokens.
    """
    return [None if token.logprob is None else _by_id(token, num_top) for token in tokens]


def with_fewer(tokens: Sequence[TokenText], num_top: int) -> tuple[TokenText, ...]:
    """`tokens` with at most `num_top` alternatives each."""
    return tuple(replace(token, top=token.top[:num_top]) for token in tokens)


class LegacyLogprobs:
    """`{tokens, token_logprobs, top_logprobs, text_offset}` of one choice, part by part.

    `text_offset` counts characters of the text before a token. Tokens may end within a character, so offsets follow
    the bytes; a token of text that is never completed starts where that text would. A token that the text does not
    show, such as a special one, takes no room.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._num_chars = 0
        self._text = ""  # from character `_text_at` on
        self._text_at = 0

    def part(self, tokens: Sequence[TokenText], text: str) -> dict[str, Any]:
        """The report on the next tokens, which came with `text`."""
        self._text = self._text[self._num_chars - self._text_at :] + text
        self._text_at = self._num_chars
        return {
            "tokens": [token.text for token in tokens],
            "token_logprobs": [_floored(token.logprob) for token in tokens],
            "top_logprobs": [_by_text(token) for token in tokens],
            "text_offset": [self._offset(token) for token in tokens],
        }

    def _offset(self, token: TokenText) -> int:
        before = self._decoder.getstate()
        first, rest = bytes(token.bytes[:1]), bytes(token.bytes[1:])
        begun = self._decoder.decode(first)
        # Bytes that this token does not complete are one broken character, which stands before it.
        num_broken = int(_is_broken(before[0] + first, begun))
        shown = begun + self._decoder.decode(rest)
        if self._num_chars == 0 and shown[:1] == " " and self._text[:1] != " ":
            shown = shown[1:]  # some tokenizers drop the space before the first word
        at = self._num_chars - self._text_at
        ahead = self._text[at : at + len(shown)]
        # A stop string may hold back the end of a token's text, never its start.
        if shown and not (ahead and shown.startswith(ahead)):
            self._decoder.setstate(before)
            return self._num_chars
        offset = self._num_chars + num_broken
        self._num_chars += len(shown)
        return offset


def _is_broken(data: bytes, decoded: str) -> bool:
    """Whether the last byte of `data`, which makes a decoder say `decoded`, broke off the character before it."""
    return len(data) > 1 and bool(decoded) and data.decode("utf-8", "replace") != data.decode("utf-8", "ignore")


def _by_text(token: TokenText) -> dict[str, float] | None:
    """Alternatives and the token itself. Two tokens may have one text (halves of characters): the likelier stays."""
    if token.logprob is None:
        return None
    scores: dict[str, float] = {}
    for each in (*token.top, token):
        if (logprob := _floored(each.logprob)) is not None:
            scores[each.text] = max(scores.get(each.text, LOGPROB_FLOOR), logprob)
    return scores


def _by_id(token: TokenText, num_top: int) -> dict[str, Any]:
    ranked = [*enumerate(token.top[:num_top], start=1), (None, token)]
    scores: dict[str, Any] = {}
    for rank, each in ranked:
        entry = {"logprob": _floored(each.logprob), "rank": rank, "decoded_token": each.text}
        scores.setdefault(str(each.token_id), entry)
    return scores


def _entry(token: TokenText) -> dict[str, Any]:
    return {"token": token.text, "logprob": _floored(token.logprob), "bytes": list(token.bytes)}


def _floored(logprob: float | None) -> float | None:
    """None is the first token of a prompt. Written so that NaN is floored, too."""
    return logprob if logprob is None or logprob > LOGPROB_FLOOR else LOGPROB_FLOOR
