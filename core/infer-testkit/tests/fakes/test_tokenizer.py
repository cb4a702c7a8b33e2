from __future__ import annotations

import pytest

from infer_testkit.fakes.tokenizer import BOS_ID, EOS_ID, ByteTokenizer, byte_source
from infer_testkit.tokenizer import TEXTS, TokenizerConformance


class Kit(TokenizerConformance):
    """Not collected: the fake is no installed plugin, so only the tests of behaviour are called."""

    tokenizer = "unregistered"


BEHAVIOUR = [
    "test_an_empty_text_has_no_tokens_of_its_own",
    "test_a_stream_never_shows_half_a_character",
    "test_special_tokens_are_left_out_unless_asked_for",
    "test_special_tokens_written_out_become_their_ids",
    "test_without_special_no_bos_is_added",
    "test_an_id_without_a_token_decodes_to_nothing",
    "test_calls_from_many_threads_agree",
]


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_the_fake_passes_the_kit(name: str) -> None:
    getattr(Kit(), name)(ByteTokenizer())


@pytest.mark.parametrize("text", TEXTS)
def test_the_fake_gives_text_back(text: str) -> None:
    Kit().test_text_comes_back_unchanged(ByteTokenizer(), text)
    Kit().test_token_bytes_join_to_the_text(ByteTokenizer(), text)


def test_bos_is_added_as_the_source_says() -> None:
    assert ByteTokenizer().encode("a") == [BOS_ID, 97]
    assert ByteTokenizer(byte_source(add_bos=False)).encode("a") == [97]


def test_a_control_token_ends_an_unfinished_character() -> None:
    decoder = ByteTokenizer().stream()
    assert decoder.feed("東".encode()[0]) == ""
    assert decoder.feed(EOS_ID) == "\ufffd"
