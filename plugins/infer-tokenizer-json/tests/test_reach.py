from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from infer_tokenizer_json.tokenizer import JsonTokenizer

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def rebuilt(library: Tokenizer) -> Tokenizer:
    return Tokenizer.from_str(library.to_str())


def test_the_bound_is_the_longest_token(byte_tokenizer, sentencepiece, source_of) -> None:
    assert byte_tokenizer.max_token_chars == len("<|im_start|>")
    assert JsonTokenizer(source_of(sentencepiece, bos_id=1)).max_token_chars == len("<0x00>")


@settings(max_examples=200, deadline=None)
@given(text=UNICODE)
def test_no_text_has_fewer_tokens_than_the_bound_says(byte_level, sentencepiece, source_of, text) -> None:
    composing = rebuilt(byte_level)
    composing.normalizer = normalizers.NFC()
    for library in (byte_level, sentencepiece, composing):
        tokenizer = JsonTokenizer(source_of(library))
        assert tokenizer.max_token_chars is not None
        assert len(text) <= tokenizer.max_token_chars * len(tokenizer.encode(text, special=False))


def test_what_may_swallow_text_has_no_bound(byte_level, source_of) -> None:
    stripping, taking, dropping = rebuilt(byte_level), rebuilt(byte_level), rebuilt(byte_level)
    stripping.normalizer = normalizers.Strip()
    taking.add_special_tokens([AddedToken("<end>", rstrip=True)])
    dropping.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.ByteLevel()])
    for library in (stripping, taking, dropping):
        assert JsonTokenizer(source_of(library)).max_token_chars is None


@pytest.mark.parametrize("fuses", [True, False])
def test_unknown_characters_are_bounded_unless_they_are_fused_or_dropped(fuses: bool, source_of) -> None:
    known = Tokenizer(models.BPE({"<unk>": 0, "a": 1}, [], unk_token="<unk>", fuse_unk=fuses))
    assert (JsonTokenizer(source_of(known)).max_token_chars is None) is fuses
    assert JsonTokenizer(source_of(Tokenizer(models.BPE({"a": 0}, [])))).max_token_chars is None
