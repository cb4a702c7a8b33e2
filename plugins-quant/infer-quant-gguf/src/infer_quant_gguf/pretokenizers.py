r"""How text is cut into words before byte-level BPE, by the name in `tokenizer.ggml.pre`.

Each entry is a tuple of regular expressions that are applied one after the other, every match becoming a piece of
its own, as in the tokenizers that the names come from. `(?i:...)` groups are used for the English contractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["PRE_TOKENIZERS", "PreTokenizer"]


@dataclass(frozen=True)
class PreTokenizer:
    """One way to cut text. `whole_words`: a word that is a token is taken whole, whatever the merges say."""

    patterns: tuple[str, ...]
    nfc: bool = False
    whole_words: bool = False
    add_bos: bool = False
    """Whether BOS is added when the file does not say."""

    def normalizer_json(self) -> dict[str, Any] | None:
        """The `normalizer` of tokenizer.json."""
        return {"type": "NFC"} if self.nfc else None

    def pre_tokenizer_json(self) -> dict[str, Any]:
        """The `pre_tokenizer` of tokenizer.json."""
        splits: list[dict[str, Any]] = [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
            for pattern in self.patterns
        ]
        byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
        return {"type": "Sequence", "pretokenizers": [*splits, byte_level]}


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_CAPITALS = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_SMALLS = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"


def _llama3(digits: str) -> str:
    """Words with one leading sign, and runs of `digits`."""
    return rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"


def _cased(digits: str, contraction: str) -> str:
    """Words cut where small letters are followed by a capital."""
    lead = r"[^\r\n\p{L}\p{N}]?"
    words = f"{lead}{_CAPITALS}*{_SMALLS}+{contraction}|{lead}{_CAPITALS}+{_SMALLS}*{contraction}"
    return rf"{words}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"


_DEFAULT = PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", r"[0-9][0-9][0-9]"))
_PLAIN = PreTokenizer((_GPT2,))
_DIGITS = PreTokenizer((r"\p{N}", _GPT2))
_LLAMA3 = PreTokenizer((_llama3(r"\p{N}{1,3}"),), whole_words=True, add_bos=True)
_QWEN2 = PreTokenizer((_llama3(r"\p{N}"),), nfc=True)
_TEKKEN = PreTokenizer((_cased(r"\p{N}", ""),), whole_words=True, add_bos=True)
_O200K = PreTokenizer((_cased(r"\p{N}{1,3}", f"{_CONTRACTION}?"),))
_DEEPSEEK3 = PreTokenizer(
    (
        r"\p{N}{1,3}",
        "[一-龥\u3040-ゟ゠-ヿ]+",
        r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"""
        rf""" ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}""",
    )
)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "default": _DEFAULT,
    "gpt-2": _PLAIN,
    "phi-2": _PLAIN,
    "mpt": _PLAIN,
    "olmo": _PLAIN,
    "smollm": _DIGITS,
    "starcoder": _DIGITS,
    "refact": _DIGITS,
    "command-r": _DIGITS,
    "codeshell": _DIGITS,
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "dbrx": _LLAMA3,
    "smaug-bpe": _LLAMA3,
    "qwen2": _QWEN2,
    "stablelm2": _QWEN2,
    "deepseek-r1-qwen": _QWEN2,
    "tekken": _TEKKEN,
    "gpt-4o": _O200K,
    "llama4": _O200K,
    "deepseek-v3": _DEEPSEEK3,
}
