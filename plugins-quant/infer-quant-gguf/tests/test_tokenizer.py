"""Tokenizers built from small vocabularies, compared with a plain SentencePiece BPE and with known facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer

from infer_quant_gguf.errors import GgufMalformed, UnsupportedTokenizer
from infer_quant_gguf.tokenizer import build_tokenizer, merges_from_scores

FILE = Path("m.gguf")
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def made(metadata: dict[str, Any], pre: str = "") -> Tokenizer:
    source = build_tokenizer(FILE, metadata, pre)
    assert source is not None
    return Tokenizer.from_str(source.data)


def byte_level(pre: str | None = "gpt-2", **more: Any) -> dict[str, Any]:
    """Single bytes, a few merges, two control tokens and one user-defined one."""
    from tokenizers.pre_tokenizers import ByteLevel

    merges = ["h e", "l l", "he ll", "hell o", "Ġ w", "1 2", "Ġ Ġ", "Ċ Ċ", "' S", "hello Ġw"]
    merged = [merge.replace(" ", "") for merge in merges]
    texts = [*sorted(ByteLevel.alphabet()), *merged, "<|end|>", "<|start|>", "<tool>"]
    kinds = [NORMAL] * (256 + len(merged)) + [CONTROL, CONTROL, USER]
    keys = {"model": "gpt2", "tokens": texts, "token_type": kinds, "merges": merges, **more}
    if pre is not None:
        keys["pre"] = pre
    return {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


PIECES = ["▁", "a", "b", "c", "ab", "▁a", "▁ab", "bc", "abc", "aa", "aaa", "é", "▁▁a"]


def sentence_piece(**more: Any) -> dict[str, Any]:
    """Pieces whose scores fall in the order of PIECES[4:], runs of spaces and newlines, bytes."""
    bytes_ = [f"<0x{value:02X}>" for value in range(256)]
    users = ["\n", "\n\n", "  ", "   ", "<b>"]
    texts = ["<pad>", "<eos>", "<bos>", "<unk>", "<turn>", *users, *bytes_, *PIECES]
    kinds = [CONTROL] * 3 + [UNKNOWN, CONTROL] + [USER] * len(users) + [BYTE] * 256 + [NORMAL] * len(PIECES)
    scores = [-1000.0] * 10 + [0.0] * 256 + [-100.0 - i if i < 4 else -float(i) for i in range(len(PIECES))]
    ids = {"bos_token_id": 2, "eos_token_id": 1, "unknown_token_id": 3, "padding_token_id": 0}
    keys = {"model": "llama", "tokens": texts, "token_type": kinds, "scores": scores, "add_space_prefix": False}
    return {f"tokenizer.ggml.{key}": value for key, value in (keys | ids | more).items()}


def reference_pieces(metadata: dict[str, Any], text: str) -> list[str]:
    """SentencePiece as defined: longest user-defined piece first, then the best-scored neighbours, leftmost first."""
    rows = zip(*(metadata[f"tokenizer.ggml.{key}"] for key in ("tokens", "scores", "token_type")), strict=True)
    scores, users = {}, []
    for piece, score, kind in rows:
        if kind == NORMAL:
            scores[piece] = score
        elif kind == USER:
            users.append(piece.replace(" ", "▁"))
    users.sort(key=len, reverse=True)
    text, symbols = text.replace(" ", "▁"), []
    while text:
        piece = next((user for user in users if text.startswith(user)), text[0])
        symbols.append((piece, piece in users))
        text = text[len(piece) :]
    while True:
        joined = [
            (a[0] + b[0], i) for i, (a, b) in enumerate(zip(symbols, symbols[1:], strict=False)) if not a[1] | b[1]
        ]
        best = max(((scores[piece], -i) for piece, i in joined if piece in scores), default=None)
        if best is None:
            return [piece for piece, _ in symbols]
        at = -best[1]
        symbols[at : at + 2] = [(symbols[at][0] + symbols[at + 1][0], False)]


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "ab abc aab",
        " aaaa",
        "a  b   c    a",
        "  ab",
        "\n\n\nab\n a",
        "aaaaaaa",
        "<b>abc<b> a",
        "       abc",
        "bcabc",
    ],
)
def test_sentence_piece_text_is_cut_as_its_definition_says(text: str) -> None:
    metadata = sentence_piece()
    found = made(metadata).encode(text, add_special_tokens=False)
    texts = metadata["tokenizer.ggml.tokens"]
    assert [texts[index].replace(" ", "▁") for index in found.ids] == reference_pieces(metadata, text)


@pytest.mark.parametrize("text", ["abc é", "日本 🤗 z\t", "  \n\n x", "a\x00b", "<turn>ab<pad>"])
def test_sentence_piece_round_trips_through_bytes(text: str) -> None:
    tokenizer = made(sentence_piece())
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text


def test_unknown_characters_become_their_bytes() -> None:
    tokenizer = made(sentence_piece())
    assert tokenizer.encode("ü", add_special_tokens=False).tokens == ["<0xC3>", "<0xBC>"]


def test_bos_is_added_unless_told_otherwise() -> None:
    assert made(sentence_piece()).encode("abc").tokens == ["<bos>", "abc"]
    assert made(sentence_piece(add_eos_token=True)).encode("abc").tokens == ["<bos>", "abc", "<eos>"]
    assert made(sentence_piece(add_bos_token=False)).encode("abc").tokens == ["abc"]


def test_a_space_prefix_is_put_before_and_taken_away_again() -> None:
    tokenizer = made(sentence_piece(add_space_prefix=True))
    encoded = tokenizer.encode("ab", add_special_tokens=False)
    assert encoded.tokens == ["▁ab"]
    assert tokenizer.decode(encoded.ids) == "ab"


def test_merges_follow_scores_and_then_the_longest_left_side() -> None:
    scores = {"x": -9.0, "y": -9.0, "xy": -2.0, "xyx": -1.0, "yx": -3.0}
    assert merges_from_scores(scores) == ["xy x", "x yx", "x y", "y x"]


def test_byte_level_text_is_merged_by_the_files_merges() -> None:
    tokenizer = made(byte_level())
    assert tokenizer.encode("hello w").tokens == ["hello", "Ġw"]
    assert tokenizer.encode("hello<|end|>12<tool>").tokens == ["hello", "<|end|>", "12", "<tool>"]


@pytest.mark.parametrize(
    ("pre", "text", "expected"),
    [
        ("gpt-2", "12 12", ["12", "Ġ", "12"]),
        ("smollm", "12", ["1", "2"]),
        ("qwen2", "12", ["1", "2"]),
        ("llama-bpe", "1212", ["12", "1", "2"]),
        ("llama-bpe", "'S", ["'S"]),
        ("gpt-2", "'S", ["'", "S"]),
        ("default", "12", ["12"]),
        ("llama-bpe", "\n\nhe", ["ĊĊ", "he"]),
        ("gpt-2", "\n\nhe", ["Ċ", "Ċ", "he"]),
        ("gpt-4o", "heHE", ["he", "H", "E"]),
        ("tekken", "12", ["1", "2"]),
        ("deepseek-v3", "hello12", ["hello", "12"]),
    ],
)
def test_the_pre_tokenizer_decides_where_words_end(pre: str, text: str, expected: list[str]) -> None:
    # "1212": groups of three digits, so "121" and "2"; within "121" only "12" is merged.
    assert made(byte_level(pre, add_bos_token=False)).encode(text).tokens == expected


def test_qwen_text_is_normalised() -> None:
    tokenizer = made(byte_level("qwen2"))
    assert tokenizer.encode("e\u0301").ids == tokenizer.encode("é").ids


@pytest.mark.parametrize("text", ["naïve 日本語 🤗", " \t\r\n\n  x = 1;  ", "a\x00\x7fb", "<|start|>he<|end|>"])
def test_byte_level_round_trips(text: str) -> None:
    tokenizer = made(byte_level("smollm"))
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_control_tokens_are_special_and_user_defined_ones_are_not() -> None:
    added = json.loads(build_tokenizer(FILE, byte_level()).data)["added_tokens"]
    assert {token["content"]: token["special"] for token in added} == {
        "<|end|>": True,
        "<|start|>": True,
        "<tool>": False,
    }


def test_merges_that_lead_to_no_token_are_harmless() -> None:
    metadata = byte_level()
    metadata["tokenizer.ggml.merges"] = [*metadata["tokenizer.ggml.merges"], "x y"]
    assert made(metadata).encode("xy").tokens == ["x", "y"]


def test_an_unknown_pre_tokenizer_is_named_with_the_way_out() -> None:
    with pytest.raises(UnsupportedTokenizer, match=r"m\.gguf: pre-tokenizer 'qwen-2'.*pre_tokenizer.*mean 'qwen2'"):
        build_tokenizer(FILE, byte_level("qwen-2"))
    with pytest.raises(UnsupportedTokenizer, match=r"tokenizer\.ggml\.pre is missing"):
        build_tokenizer(FILE, byte_level(None))
    assert made(byte_level("qwen-2"), "qwen2").encode("12").tokens == ["1", "2"]


def test_an_unknown_model_is_named() -> None:
    with pytest.raises(UnsupportedTokenizer, match="'rwkv' is not supported"):
        build_tokenizer(FILE, {"tokenizer.ggml.model": "rwkv", "tokenizer.ggml.tokens": ["a"]})


@pytest.mark.parametrize(
    ("metadata", "says"),
    [
        (byte_level(tokens=[]), "tokens is missing"),
        (byte_level(token_type=[1]), "1 entries in tokenizer.ggml.token_type"),
        (byte_level(merges=[]), "merges is missing"),
        (byte_level(eos_token_id=99999), "eos_token_id is 99999"),
        (byte_level(add_bos_token=True), "BOS is to be added"),
        (sentence_piece(scores=[0.0]), "1 entries in tokenizer.ggml.scores"),
    ],
)
def test_contradicting_keys_are_malformed(metadata: dict[str, Any], says: str) -> None:
    with pytest.raises(GgufMalformed, match=says):
        build_tokenizer(FILE, metadata)


def test_the_source_carries_ids_templates_and_sampling_defaults() -> None:
    template = "tokenizer.chat_template"
    keys = {template: "{{ x }}", f"{template}.tool_use": "{{ y }}", "general.sampling.temp": 0.5}
    source = build_tokenizer(FILE, byte_level(bos_token_id=267, eos_token_id=3) | keys)
    assert source.chat_templates == {"default": "{{ x }}", "tool_use": "{{ y }}"}
    assert source.generation == {"temperature": 0.5}
    assert (source.bos_id, source.eos_ids, source.add_bos) == (267, (3, 266), False)
    assert source.special_tokens["bos_token"] == "<|start|>"


def test_without_a_bos_nothing_is_said_of_adding_one() -> None:
    source = build_tokenizer(FILE, byte_level())
    assert (source.bos_id, source.add_bos) == (None, None)


def test_a_file_without_a_tokenizer_gives_none() -> None:
    assert build_tokenizer(FILE, {}) is None


def test_many_scored_pieces_are_merged_in_time() -> None:
    import time

    scores = {f"{index:06d}"[-1 - index % 6 :]: -float(index) for index in range(100_000)}
    start = time.process_time()
    assert merges_from_scores(scores)
    assert time.process_time() - start < 2
