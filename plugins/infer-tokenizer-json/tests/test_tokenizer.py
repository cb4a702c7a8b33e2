from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from infer_api.errors import ModelError, RequestError
from infer_api.tokenizers import TokenizerSource
from infer_tokenizer_json.decoding import PieceDecoder, WindowDecoder
from infer_tokenizer_json.tokenizer import JsonTokenizer

UNICODE = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def streamed(tokenizer: JsonTokenizer, ids, skip_special: bool = True) -> str:
    decoder = tokenizer.stream(skip_special)
    return "".join([*(decoder.feed(token_id) for token_id in ids), decoder.finish()])


@pytest.fixture(scope="module")
def llama(sentencepiece, source_of) -> JsonTokenizer:
    return JsonTokenizer(source_of(sentencepiece, bos_id=1, eos_ids=(2,)))


@pytest.fixture(scope="module")
def wordpiece(source_of) -> JsonTokenizer:
    words = ["[UNK]", "play", "##ing", "##ed", "now", ".", "é"]
    library = Tokenizer(models.WordPiece({word: at for at, word in enumerate(words)}, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.decoder = decoders.WordPiece(cleanup=False)
    return JsonTokenizer(source_of(library))


@settings(max_examples=200, deadline=None)
@given(data=st.data(), skip_special=st.booleans())
def test_byte_level_streams_decode_as_the_library_does(byte_level, byte_tokenizer, data, skip_special) -> None:
    ids = data.draw(st.lists(st.integers(0, byte_tokenizer.vocab_size - 1), max_size=60))
    expected = byte_level.decode(ids, skip_special_tokens=skip_special)
    assert byte_tokenizer.decode(ids, skip_special) == expected
    assert streamed(byte_tokenizer, ids, skip_special) == expected


@settings(max_examples=200, deadline=None)
@given(text=UNICODE)
def test_any_text_survives_byte_level_encoding_and_streaming(byte_tokenizer, text) -> None:
    assert streamed(byte_tokenizer, byte_tokenizer.encode(text), skip_special=False) == text


@settings(max_examples=200, deadline=None)
@given(text=UNICODE)
def test_any_text_survives_byte_fallback_and_streaming(llama, sentencepiece, text) -> None:
    ids = llama.encode(text, special=False)
    expected = sentencepiece.decode(ids, skip_special_tokens=False)
    assert streamed(llama, ids, skip_special=False) == expected
    assert llama.decode(ids, skip_special=False) == expected


@settings(max_examples=200, deadline=None)
@given(data=st.data(), skip_special=st.booleans())
def test_random_ids_with_byte_fallback_stream_to_what_they_decode_to(llama, sentencepiece, data, skip_special) -> None:
    ids = data.draw(st.lists(st.integers(0, llama.vocab_size - 1), max_size=40))
    text = llama.decode(ids, skip_special)
    assert streamed(llama, ids, skip_special) == text
    if "\ufffd" not in text:  # the library writes a broken run of bytes off as a whole, we keep its good characters
        assert text == sentencepiece.decode(ids, skip_special_tokens=skip_special)


@pytest.mark.parametrize("text", ["a cat", "  the cat", " a", "", "    "])
def test_leading_spaces_of_sentencepiece_come_back(llama, text) -> None:
    assert streamed(llama, llama.encode(text)) == text


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_metaspace_streams_as_the_library_decodes(sentencepiece, source_of, data) -> None:
    library = Tokenizer.from_str(sentencepiece.to_str())
    library.decoder = decoders.Metaspace()
    tokenizer = JsonTokenizer(source_of(library))
    assert isinstance(tokenizer.stream(), PieceDecoder)
    ids = data.draw(st.lists(st.integers(0, tokenizer.vocab_size - 1), max_size=20))
    assert streamed(tokenizer, ids) == tokenizer.decode(ids) == library.decode(ids)


@settings(max_examples=100, deadline=None)
@given(ids=st.lists(st.integers(0, 6), max_size=20))
def test_other_decoders_are_streamed_through_a_window(wordpiece, ids) -> None:
    assert isinstance(wordpiece.stream(), WindowDecoder)
    assert streamed(wordpiece, ids) == wordpiece.decode(ids)


def test_half_a_character_is_held_back_until_it_is_whole(byte_tokenizer) -> None:
    ids = byte_tokenizer.encode("\U0001f600")
    assert len(ids) == 4
    decoder = byte_tokenizer.stream()
    assert [decoder.feed(token_id) for token_id in ids] == ["", "", "", "\U0001f600"]
    assert decoder.finish() == ""


def test_half_a_character_at_the_end_becomes_a_replacement_once(byte_tokenizer) -> None:
    decoder = byte_tokenizer.stream()
    assert [decoder.feed(token_id) for token_id in byte_tokenizer.encode("\U0001f600")[:2]] == ["", ""]
    assert decoder.finish() == "\ufffd"


def test_ids_without_a_token_decode_to_nothing(byte_tokenizer, wordpiece) -> None:
    """B74: an output layer wider than the tokenizer."""
    size = byte_tokenizer.vocab_size
    ids = [size, *byte_tokenizer.encode("ab"), size + 7, -1, 2**40]
    assert byte_tokenizer.decode(ids) == streamed(byte_tokenizer, ids) == "ab"
    assert wordpiece.decode([1, 99, 2]) == streamed(wordpiece, [1, 99, 2]) == "playing"


def test_a_gap_in_the_vocabulary_decodes_to_nothing(byte_level, source_of) -> None:
    data = json.loads(byte_level.to_str())
    for token in data["added_tokens"]:
        if token["content"] == "<café>":
            data["model"]["vocab"]["<far away>"] = token["id"] + 20
    tokenizer = JsonTokenizer(TokenizerSource("tokenizer.json", json.dumps(data), "here"))
    assert tokenizer.vocab_size == byte_level.get_vocab_size() + 20
    gap = tokenizer.vocab_size - 2
    assert tokenizer.decode([gap]) == streamed(tokenizer, [gap]) == ""
    with pytest.raises(RequestError, match=f"token id {gap} has no token"):
        tokenizer.token_bytes(gap)


def test_special_tokens_are_left_out_only_on_demand(byte_tokenizer) -> None:
    ids = byte_tokenizer.encode("<|im_start|>hi<tool_call><|im_end|>")
    assert {ids[0], ids[-1]} == byte_tokenizer.special_ids()
    assert byte_tokenizer.decode(ids) == "hi<tool_call>"
    assert byte_tokenizer.decode(ids, skip_special=False) == "<|im_start|>hi<tool_call><|im_end|>"


def test_token_bytes_are_a_tokens_own(byte_tokenizer, llama) -> None:
    ids = byte_tokenizer.encode("é\U0001f600")
    assert b"".join(map(byte_tokenizer.token_bytes, ids)) == "é\U0001f600".encode()
    assert llama.token_bytes(3 + 0xE2) == b"\xe2"
    assert llama.token_bytes(llama.encode("a")[-1]) == b" a"
    assert byte_tokenizer.token_bytes(1) == b"<|im_end|>"


def test_the_post_processor_adds_bos_and_special_false_does_not(llama) -> None:
    assert llama.encode("cat")[0] == 1
    assert llama.encode("cat", special=False) == llama.encode("cat")[1:]


@pytest.mark.parametrize(("add_bos", "expected"), [(True, 1), (False, 0), (None, 1)])
def test_add_bos_overrides_the_post_processor(sentencepiece, source_of, add_bos, expected) -> None:
    tokenizer = JsonTokenizer(source_of(sentencepiece, bos_id=1, add_bos=add_bos))
    assert tokenizer.encode("cat").count(1) == expected


def test_add_bos_works_without_a_post_processor_and_never_doubles(byte_level, source_of) -> None:
    tokenizer = JsonTokenizer(source_of(byte_level, bos_id=0, add_bos=True))
    assert tokenizer.encode("") == [0]
    assert tokenizer.encode("<|im_start|>a") == tokenizer.encode("a")


def test_add_bos_without_a_bos_is_refused(byte_level, source_of) -> None:
    with pytest.raises(ModelError, match="no bos_id"):
        JsonTokenizer(source_of(byte_level, add_bos=True))


def test_truncation_and_padding_of_the_file_are_switched_off(byte_level, source_of) -> None:
    library = Tokenizer.from_str(byte_level.to_str())
    library.enable_truncation(2)
    library.enable_padding(length=64)
    assert JsonTokenizer(source_of(library)).decode(JsonTokenizer(source_of(library)).encode("abcdef")) == "abcdef"


@pytest.mark.parametrize("data", ["", "{}", "no json", '{"model": {"type": "Odd"}}'])
def test_a_damaged_file_is_a_model_error_naming_it(data) -> None:
    with pytest.raises(ModelError, match="some/tokenizer.json"):
        JsonTokenizer(TokenizerSource("tokenizer.json", data, "some/tokenizer.json"))


def test_long_texts_are_encoded_like_short_ones(byte_tokenizer) -> None:
    text = "naïve 東京 🎈\n" * 2000
    pieces = [byte_tokenizer.encode(line, special=False) for line in text.splitlines(keepends=True)]
    assert byte_tokenizer.encode(text, special=False) == [one for piece in pieces for one in piece]
