"""Incremental decoders: token ids in, text out as soon as it is final."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence

from infer_tokenizer_json.pieces import PieceScheme

__all__ = ["PieceDecoder", "WindowDecoder"]

REPLACEMENT = "\ufffd"
MAX_HELD = 16
"""Tokens a WindowDecoder waits for a character to become whole; no character takes more."""


class PieceDecoder:
    """For schemes where each token has bytes of its own; constant work per token.

    Bytes that are no valid UTF-8 become U+FFFD one maximal broken part at a time, in the middle as at the end.
    """

    def __init__(self, scheme: PieceScheme, piece: Callable[[int], bytes | None]) -> None:
        self._piece = piece
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._scheme = scheme
        self._to_strip = scheme.strip
        self._is_first = True

    def feed(self, token_id: int) -> str:
        data = self._piece(token_id)
        if data is None:
            return ""
        if self._is_first:
            self._is_first = False
            if self._scheme.first_drops_spaces:
                data = data.replace(b" ", b"")
        text = self._decode(data)
        return self._strip(text) if self._to_strip and text else text

    def finish(self) -> str:
        text = self._decode(b"", True)
        return self._strip(text) if self._to_strip else text

    def _strip(self, text: str) -> str:
        char, count = self._scheme.strip_char, 0
        while count < self._to_strip and text.startswith(char, count):
            count += 1
        # Anything else than the character ends the stripping for good.
        self._to_strip = self._to_strip - count if count == len(text) else 0
        return text[count:]


class WindowDecoder:
    """For any other decoder: the text of a short window of tokens, minus the text of the window's known part."""

    def __init__(self, decode: Callable[[Sequence[int]], str], is_silent: Callable[[int], bool]) -> None:
        self._decode = decode
        self._is_silent = is_silent
        self._ids: list[int] = []
        self._num_known = 0
        self._known_text = ""

    def feed(self, token_id: int) -> str:
        if self._is_silent(token_id):
            return ""
        self._ids.append(token_id)
        text = self._decode(self._ids)
        if text.endswith(REPLACEMENT) and len(self._ids) - self._num_known < MAX_HELD:
            return ""
        return self._advance(text)

    def finish(self) -> str:
        return self._advance(self._decode(self._ids))

    def _advance(self, text: str) -> str:
        new = text[len(self._known_text) :]
        # Keep the tokens of this step as context: how a token reads may depend on the one before it.
        self._ids = self._ids[self._num_known :]
        self._num_known = len(self._ids)
        self._known_text = self._decode(self._ids)
        return new
