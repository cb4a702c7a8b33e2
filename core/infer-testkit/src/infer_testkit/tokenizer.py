"""Conformance of tokenizers.

class TestMine(TokenizerConformance):
    tokenizer = "mine"

    def source(self):
        return TokenizerSource("mine.format", data, where="test")
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest
import torch

from infer_api.errors import RequestError
from infer_api.manifest import TokenizerPlugin
from infer_api.tokenizers import Tokenizer, TokenizerSource
from infer_testkit.plugin import PluginConformance, find_manifest, load_implementation

__all__ = ["TEXTS", "TokenizerConformance"]

TEXTS = (
    "Hello, world!",
    "  two leading spaces, a\ttab and\n\n  a break ",
    "naïve façade — “quoted” … 1,234.5",
    "東京の空 Привет مرحبا",
    "family: 👩‍👩‍👧‍👦 flag: 🇫🇷 balloon: 🎈",
    "def f(x):\n    return {'a': [x ** 2, None]}\n",
    "x" * 300,
)
"""Texts that any byte-complete tokenizer gives back unchanged."""


class TokenizerConformance(PluginConformance):
    """Fill in `tokenizer` and `source`."""

    kind = "tokenizers"
    tokenizer: ClassVar[str]
    """Name of the installed plugin."""

    def plugin_name(self) -> str:
        return self.tokenizer

    def source(self) -> TokenizerSource:
        """A source in a format that the plugin reads."""
        raise NotImplementedError

    @pytest.fixture
    def tok(self) -> Tokenizer:
        """The tokenizer, built the way core does."""
        tokenizer: Tokenizer = load_implementation(find_manifest(self.kind, self.tokenizer))(self.source())
        return tokenizer

    def test_the_manifest_lists_the_format(self) -> None:
        manifest = find_manifest(self.kind, self.tokenizer)
        assert isinstance(manifest, TokenizerPlugin)
        assert self.source().format in manifest.supports.formats

    @pytest.mark.parametrize("text", TEXTS)
    def test_text_comes_back_unchanged(self, tok: Tokenizer, text: str) -> None:
        ids = tok.encode(text, special=False)
        assert all(0 <= token_id < tok.vocab_size for token_id in ids)
        assert tok.decode(ids) == text

    @pytest.mark.parametrize("text", TEXTS)
    def test_token_bytes_join_to_the_text(self, tok: Tokenizer, text: str) -> None:
        joined = b"".join(tok.token_bytes(token_id) for token_id in tok.encode(text, special=False))
        # Some tokenizers keep the space that they put before a text as part of its first token.
        assert joined in (text.encode(), b" " + text.encode())

    def test_an_empty_text_has_no_tokens_of_its_own(self, tok: Tokenizer) -> None:
        assert tok.encode("", special=False) == []
        assert tok.decode([]) == ""

    @pytest.mark.parametrize("skip_special", [True, False])
    def test_a_stream_joins_to_the_decoded_text(self, tok: Tokenizer, rng: torch.Generator, skip_special: bool) -> None:
        for _ in range(20):
            ids = torch.randint(tok.vocab_size, (25,), generator=rng).tolist()
            decoder = tok.stream(skip_special)
            streamed = "".join(decoder.feed(token_id) for token_id in ids) + decoder.finish()
            assert streamed == tok.decode(ids, skip_special)

    def test_a_stream_never_shows_half_a_character(self, tok: Tokenizer) -> None:
        decoder = tok.stream()
        pieces = [decoder.feed(token_id) for token_id in tok.encode("東京 🎈", special=False)]
        assert "\ufffd" not in "".join(pieces)
        assert "".join(pieces) + decoder.finish() == "東京 🎈"

    def test_special_tokens_are_left_out_unless_asked_for(self, tok: Tokenizer) -> None:
        for token_id in tok.special_ids():
            assert 0 <= token_id < tok.vocab_size
            assert tok.decode([token_id]) == ""
            assert tok.decode([token_id], skip_special=False) != ""

    def test_special_tokens_written_out_become_their_ids(self, tok: Tokenizer) -> None:
        for token_id in tok.special_ids():
            text = tok.decode([token_id], skip_special=False)
            assert token_id in tok.encode(f"a{text}b", special=False)

    def test_without_special_no_bos_is_added(self, tok: Tokenizer) -> None:
        assert not set(tok.encode("plain", special=False)) & tok.special_ids()

    @pytest.mark.parametrize("beyond", [-1, 0, 1_000_000])
    def test_an_id_without_a_token_is_a_request_error(self, tok: Tokenizer, beyond: int) -> None:
        with pytest.raises(RequestError):
            tok.token_bytes(beyond if beyond < 0 else tok.vocab_size + beyond)

    def test_an_id_without_a_token_decodes_to_nothing(self, tok: Tokenizer) -> None:
        ids = tok.encode("ab", special=False)
        assert tok.decode([*ids, tok.vocab_size + 3]) == "ab"

    def test_calls_from_many_threads_agree(self, tok: Tokenizer) -> None:
        with ThreadPoolExecutor(8) as pool:
            for text, ids in zip(TEXTS * 8, pool.map(tok.encode, TEXTS * 8), strict=True):
                assert ids == tok.encode(text)
