"""How many characters of a text one token can stand for, so that a text that is far too long need not be tokenized.

A token stands for at most as many characters as it is long itself, unless something before it drops or folds
characters. Whatever is not known to keep them all has no bound: steps that strip, words that become one unknown
token, added tokens that take the space around them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models

__all__ = ["find_max_token_chars"]

COMPOSED = 4
"""Most characters that Unicode composes into one."""
SPLITTERS = ("ByteLevel", "Metaspace", "Digits", "Split", "Punctuation")


def find_max_token_chars(
    library: LibraryTokenizer, vocab: Mapping[str, int], byte_alphabet: Iterable[str]
) -> int | None:
    """Most characters of a text that one token covers, or None where there is no such bound."""
    normalizers, splitters = _steps(library.normalizer, "normalizers"), _steps(library.pre_tokenizer, "pretokenizers")
    if any(token.lstrip or token.rstrip for token in library.get_added_tokens_decoder().values()):
        return None
    if not all(map(_keeps_characters, normalizers)) or not all(
        step["type"] in SPLITTERS and step.get("behavior") != "Removed" for step in splitters
    ):
        return None
    is_byte_level = any(step["type"] == "ByteLevel" for step in [*normalizers, *splitters])
    if not _has_token_for_everything(library.model, vocab, byte_alphabet if is_byte_level else None):
        return None
    composes = any(step["type"] in ("NFC", "NFKC") for step in normalizers)
    return max(map(len, vocab), default=1) * (COMPOSED if composes else 1)


def _steps(part: Any, key: str) -> list[dict[str, Any]]:
    """The part of the file that `part` was made from, sequences laid out flat."""
    if part is None:
        return []
    waiting, flat = [json.loads(part.__getstate__())], []
    while waiting:
        step = waiting.pop()
        if step["type"] == "Sequence":
            waiting += step[key]
        else:
            flat.append(step)
    return flat


def _keeps_characters(step: Mapping[str, Any]) -> bool:
    if step["type"] == "Replace":
        old = step["pattern"].get("String")
        return old is not None and len(step["content"]) >= len(old)
    return step["type"] in ("NFC", "NFD", "NFKC", "NFKD", "Prepend", "ByteLevel", "Lowercase")


def _has_token_for_everything(model: Any, vocab: Mapping[str, int], byte_alphabet: Iterable[str] | None) -> bool:
    if not isinstance(model, models.BPE):
        return False
    if byte_alphabet is not None:
        return all(char in vocab for char in byte_alphabet)
    if model.byte_fallback:
        return all(f"<0x{byte:02X}>" in vocab for byte in range(256))
    return model.unk_token is not None and not model.fuse_unk
