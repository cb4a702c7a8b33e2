"""The vocabulary in a GGUF file's metadata, checked, and the special tokens it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from infer_quant_gguf.errors import GgufMalformed

__all__ = ["TokenKind", "Vocabulary"]


class TokenKind(IntEnum):
    """Values of `tokenizer.ggml.token_type`."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


# Control tokens that end a turn of a conversation but are often not named by the file's keys.
_TURN_ENDS = frozenset({"<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|return|>"})
_NAMED = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


@dataclass(frozen=True)
class Vocabulary:
    """Texts, kinds and ids. `ids` holds the last id of each text."""

    path: Path
    metadata: Mapping[str, Any]
    texts: list[str]
    kinds: list[int]
    ids: dict[str, int]

    @classmethod
    def from_metadata(cls, path: Path, metadata: Mapping[str, Any]) -> Vocabulary:
        """Raises GgufMalformed when lengths differ or an id lies outside of the vocabulary."""
        texts = [text or f"[EMPTY_{index}]" for index, text in enumerate(metadata.get("tokenizer.ggml.tokens") or ())]
        if not texts:
            raise GgufMalformed(path, "tokenizer.ggml.tokens is missing or empty")
        kinds = metadata.get("tokenizer.ggml.token_type") or [int(TokenKind.NORMAL)] * len(texts)
        if len(kinds) != len(texts):
            raise GgufMalformed(path, f"{len(texts)} tokens, but {len(kinds)} entries in tokenizer.ggml.token_type")
        vocabulary = cls(path, metadata, texts, kinds, {text: index for index, text in enumerate(texts)})
        for key in ("bos", "eos", "eot", "eom", "unknown", "padding"):
            vocabulary.find_id(f"{key}_token_id")
        return vocabulary

    def find_id(self, key: str) -> int | None:
        """The id in `tokenizer.ggml.<key>`, None when the file names none. Raises GgufMalformed."""
        found = self.metadata.get(f"tokenizer.ggml.{key}")
        if found is None:
            return None
        if not isinstance(found, int) or not 0 <= found < len(self.texts):
            raise GgufMalformed(self.path, f"tokenizer.ggml.{key} is {found!r}, the vocabulary has {len(self.texts)}")
        return found

    def flag(self, key: str, default: bool) -> bool:
        """The boolean `tokenizer.ggml.<key>`."""
        return bool(self.metadata.get(f"tokenizer.ggml.{key}", default))

    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a generation: those the file names, and the control tokens known to end a turn."""
        named = [self.find_id(f"{key}_token_id") for key in ("eos", "eot", "eom")]
        known = [self.ids[text] for text in sorted(_TURN_ENDS & self.ids.keys())]
        known = [index for index in known if self.kinds[index] == TokenKind.CONTROL]
        return tuple(dict.fromkeys(index for index in (*named, *known) if index is not None))

    def special_texts(self) -> dict[str, str]:
        """Texts such as {"bos_token": "<s>"}."""
        found = {name: self.find_id(key) for name, key in _NAMED.items()}
        return {name: self.texts[index] for name, index in found.items() if index is not None}

    def added_tokens(self) -> list[dict[str, Any]]:
        """The `added_tokens` of tokenizer.json: control tokens are special, user defined ones are not."""
        special = (TokenKind.CONTROL, TokenKind.UNKNOWN)
        return [
            self._added(index, special=kind in special)
            for index, kind in enumerate(self.kinds)
            if kind in special or kind == TokenKind.USER_DEFINED
        ]

    def _added(self, index: int, *, special: bool) -> dict[str, Any]:
        content = self.texts[index]
        # Runs of spaces are found in the normalised text, after "▁" took their place; all else in the text itself.
        normalized = not special and " " in content and self.metadata.get("tokenizer.ggml.model") == "llama"
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": normalized, "special": special}
        return {"id": index, "content": content, **flags}
