"""Builds a Hugging Face tokenizer.json from the tokenizer keys of a GGUF file.

Two kinds exist: "gpt2" is byte-level BPE whose merges are in the file; "llama" is SentencePiece BPE, whose merges
follow from the scores of its pieces: any two pieces that join to a piece may be merged, best score first.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

from infer_api.tokenizers import TokenizerSource
from infer_quant_gguf.errors import GgufMalformed, UnsupportedTokenizer
from infer_quant_gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from infer_quant_gguf.vocabulary import TokenKind, Vocabulary

__all__ = ["build_tokenizer", "merges_from_scores"]

_SPACE = "\u2581"
_TEMPLATE_KEY = "tokenizer.chat_template"
_SAMPLING = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repetition_penalty",
}


def build_tokenizer(path: Path, metadata: Mapping[str, Any], pre_tokenizer: str = "") -> TokenizerSource | None:
    """The tokenizer that a GGUF file describes, or None when it holds none.

    `pre_tokenizer` replaces the file's `tokenizer.ggml.pre`. Raises UnsupportedTokenizer for a model or
    pre-tokenizer that is not known, GgufMalformed when keys contradict each other.
    """
    model = metadata.get("tokenizer.ggml.model")
    if model is None or model == "none":
        return None
    vocabulary = Vocabulary.from_metadata(path, metadata)
    if model == "gpt2":
        pre = _pre_tokenizer(path, pre_tokenizer or metadata.get("tokenizer.ggml.pre"))
        content, add_bos = _byte_level(vocabulary, pre), vocabulary.flag("add_bos_token", pre.add_bos)
    elif model == "llama":
        content, add_bos = _sentence_piece(vocabulary), vocabulary.flag("add_bos_token", True)
    else:
        raise UnsupportedTokenizer(path, f"tokenizer model {model!r} is not supported (supported: gpt2, llama)")
    content["post_processor"] = _post_processor(vocabulary, add_bos)
    bos_id = vocabulary.find_id("bos_token_id")
    return TokenizerSource(
        format="tokenizer.json",
        data=msgspec.json.encode(content).decode(),
        where=str(path),
        chat_templates=_chat_templates(metadata),
        bos_id=bos_id,
        eos_ids=vocabulary.eos_ids(),
        pad_id=vocabulary.find_id("padding_token_id"),
        add_bos=None if bos_id is None else add_bos,
        special_tokens=vocabulary.special_texts(),
        generation=_generation(metadata),
    )


def merges_from_scores(scores: Mapping[str, float]) -> list[str]:
    """Pairs "left right" of pieces in the order in which SentencePiece would merge them.

    Pieces come by falling score, and the splits of one piece from the longest left side to the shortest. Pieces
    contain no spaces.
    """
    known = frozenset(scores)
    merges: list[str] = []
    for piece in sorted(scores, key=scores.__getitem__, reverse=True):
        cuts = range(len(piece) - 1, 0, -1)
        merges += [f"{piece[:cut]} {piece[cut:]}" for cut in cuts if piece[:cut] in known and piece[cut:] in known]
    return merges


def _pre_tokenizer(path: Path, name: str | None) -> PreTokenizer:
    how = "name the right one with the loader's option pre_tokenizer"
    if name is None:
        raise UnsupportedTokenizer(path, f"tokenizer.ggml.pre is missing, so text cannot be cut into words; {how}")
    if name not in PRE_TOKENIZERS:
        near = get_close_matches(name, PRE_TOKENIZERS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        known = ", ".join(sorted(PRE_TOKENIZERS))
        raise UnsupportedTokenizer(path, f"pre-tokenizer {name!r} is not known (known: {known}); {how}.{hint}")
    return PRE_TOKENIZERS[name]


def _tokenizer_json(added: list[dict[str, Any]], model: dict[str, Any]) -> dict[str, Any]:
    fixed = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    bpe = {"type": "BPE", "dropout": None, "continuing_subword_prefix": None, "end_of_word_suffix": None}
    return {**fixed, "model": bpe | model}


def _byte_level(vocabulary: Vocabulary, pre: PreTokenizer) -> dict[str, Any]:
    merges = vocabulary.metadata.get("tokenizer.ggml.merges")
    if not merges:
        raise GgufMalformed(vocabulary.path, "tokenizer.ggml.merges is missing, which the tokenizer model gpt2 needs")
    ids = vocabulary.ids
    # A merge whose parts or result have no id could never give a token; the library refuses to load such a pair.
    usable = [
        f"{left} {right}"
        for left, _, right in (merge.partition(" ") for merge in merges)
        if left in ids and right in ids and left + right in ids
    ]
    rules = {"unk_token": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": pre.whole_words}
    content = _tokenizer_json(vocabulary.added_tokens(), {**rules, "vocab": ids, "merges": usable})
    content["normalizer"] = pre.normalizer_json()
    content["pre_tokenizer"] = pre.pre_tokenizer_json()
    content["decoder"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return content


def _sentence_piece(vocabulary: Vocabulary) -> dict[str, Any]:
    scores = vocabulary.metadata.get("tokenizer.ggml.scores") or ()
    if len(scores) != len(vocabulary.texts):
        raise GgufMalformed(
            vocabulary.path, f"{len(vocabulary.texts)} tokens, but {len(scores)} entries in tokenizer.ggml.scores"
        )
    entries = zip(vocabulary.texts, scores, vocabulary.kinds, strict=True)
    # A space within a piece cannot occur in text, where "▁" has taken its place.
    normal = {text: score for text, score, kind in entries if kind == TokenKind.NORMAL and " " not in text}
    merges = merges_from_scores(normal)
    unknown = vocabulary.special_texts().get("unk_token")
    rules = {
        "unk_token": unknown,
        "fuse_unk": True,
        "byte_fallback": TokenKind.BYTE in vocabulary.kinds,
        "ignore_merges": False,
    }
    content = _tokenizer_json(vocabulary.added_tokens(), {**rules, "vocab": vocabulary.ids, "merges": merges})
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}
    restore = {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "}
    decoders: list[dict[str, Any]] = [restore, {"type": "ByteFallback"}, {"type": "Fuse"}]
    if vocabulary.flag("add_space_prefix", True):
        content["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": _SPACE}, replace]}
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    else:
        content["normalizer"] = replace
    content["pre_tokenizer"] = None
    content["decoder"] = {"type": "Sequence", "decoders": decoders}
    return content


def _post_processor(vocabulary: Vocabulary, add_bos: bool) -> dict[str, Any] | None:
    """Adds BOS before and EOS behind a text, as the file says."""
    wanted = {"bos": add_bos, "eos": vocabulary.flag("add_eos_token", False)}
    found = {key: vocabulary.find_id(f"{key}_token_id") for key, is_on in wanted.items() if is_on}
    for key, index in found.items():
        if index is None:
            raise GgufMalformed(vocabulary.path, f"{key.upper()} is to be added, but {key}_token_id is missing")
    used = {key: vocabulary.texts[index] for key, index in found.items() if index is not None}
    if not used:
        return None

    def text(which: str, type_id: int) -> list[dict[str, Any]]:
        before = [{"SpecialToken": {"id": used["bos"], "type_id": type_id}}] if "bos" in used else []
        behind = [{"SpecialToken": {"id": used["eos"], "type_id": type_id}}] if "eos" in used else []
        return [*before, {"Sequence": {"id": which, "type_id": type_id}}, *behind]

    tokens = {name: {"id": name, "ids": [vocabulary.ids[name]], "tokens": [name]} for name in used.values()}
    pair = text("A", 0) + text("B", 1)
    return {"type": "TemplateProcessing", "single": text("A", 0), "pair": pair, "special_tokens": tokens}


def _chat_templates(metadata: Mapping[str, Any]) -> dict[str, str]:
    named = {
        key.removeprefix(f"{_TEMPLATE_KEY}."): str(value)
        for key, value in metadata.items()
        if key.startswith(f"{_TEMPLATE_KEY}.")
    }
    if _TEMPLATE_KEY in metadata:
        named["default"] = str(metadata[_TEMPLATE_KEY])
    return named


def _generation(metadata: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: metadata.get(f"general.sampling.{key}") for key, name in _SAMPLING.items()}
    return {name: value for name, value in found.items() if value is not None}
