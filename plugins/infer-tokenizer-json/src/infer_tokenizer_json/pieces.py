"""What a single token contributes to a text, for the decoders of tokenizer.json that work token by token.

    decoder in tokenizer.json                       bytes of a token
    ByteLevel                                       its characters through the 256-character alphabet
    Replace("▁", " ") + ByteFallback + Fuse         its text; "<0xE2>" is the one byte E2
      … + Strip(" ", start=1)                       the same; the whole text loses its first space
    Metaspace                                       its text; the first token loses its "▁"

Joined and read as UTF-8 these give the text. Any other decoder has no such reading, and `read_scheme` says None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["PieceScheme", "byte_alphabet", "read_scheme"]


@dataclass(frozen=True)
class PieceScheme:
    """How tokens become bytes, and what is taken off the front of a text.

    `strip` is the number of leading `strip_char` characters that a text loses; with `first_drops_spaces` its first
    token loses every space.
    """

    to_bytes: Callable[[str], bytes]
    strip: int = 0
    strip_char: str = " "
    first_drops_spaces: bool = False


def read_scheme(decoder: Mapping[str, Any] | None) -> PieceScheme | None:
    """The scheme of the "decoder" part of a tokenizer.json, or None where tokens have no text of their own."""
    if decoder is None:
        return None
    steps: Sequence[Mapping[str, Any]] = decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    kinds = [step["type"] for step in steps]
    if kinds == ["ByteLevel"]:
        return PieceScheme(_byte_level_reader())
    if kinds == ["Metaspace"]:
        mark = steps[0]["replacement"]
        drops = steps[0].get("prepend_scheme") != "never"
        return PieceScheme(_text_reader([(mark, " ")], byte_fallback=False), first_drops_spaces=drops)
    return _read_sentencepiece(steps, kinds)


def _read_sentencepiece(steps: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> PieceScheme | None:
    num_replaces = next((at for at, kind in enumerate(kinds) if kind != "Replace"), len(kinds))
    if list(kinds[num_replaces:]) not in (["ByteFallback", "Fuse"], ["ByteFallback", "Fuse", "Strip"]):
        return None
    patterns = [(step["pattern"].get("String"), step["content"]) for step in steps[:num_replaces]]
    if any(old is None for old, _ in patterns):
        return None
    to_bytes = _text_reader(patterns, byte_fallback=True)
    if kinds[-1] != "Strip":
        return PieceScheme(to_bytes)
    strip = steps[-1]
    return None if strip["stop"] else PieceScheme(to_bytes, strip=strip["start"], strip_char=strip["content"])


def _text_reader(replaces: Sequence[tuple[str, str]], *, byte_fallback: bool) -> Callable[[str], bytes]:
    def to_bytes(token: str) -> bytes:
        for old, new in replaces:
            token = token.replace(old, new)
        if byte_fallback and len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
            try:
                return bytes([int(token[3:5], 16)])
            except ValueError:
                return token.encode()
        return token.encode()

    return to_bytes


def _byte_level_reader() -> Callable[[str], bytes]:
    alphabet = byte_alphabet()

    def to_bytes(token: str) -> bytes:
        try:
            return bytes([alphabet[char] for char in token])
        except KeyError:  # an added token, written as plain text
            return token.encode()

    return to_bytes


def byte_alphabet() -> dict[str, int]:
    """Printable Latin-1 characters stand for their own byte; the other bytes, in order, for U+0100 and on."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = sorted(set(range(256)) - set(plain))
    return {chr(byte): byte for byte in plain} | {chr(0x100 + at): byte for at, byte in enumerate(rest)}
