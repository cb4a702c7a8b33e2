"""`JsonTokenizer`: any tokenizer.json, through the `tokenizers` library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer as LibraryTokenizer

from infer_api.errors import ModelError, RequestError
from infer_api.tokenizers import Decoder, TokenizerSource
from infer_tokenizer_json.decoding import PieceDecoder, WindowDecoder
from infer_tokenizer_json.pieces import PieceScheme, byte_alphabet, read_scheme
from infer_tokenizer_json.reach import find_max_token_chars

__all__ = ["JsonTokenizer"]


LONG_TEXT = 16_384
"""Characters from which encoding takes long enough for other threads to notice."""


class JsonTokenizer:
    """A `Tokenizer` made from a source of format "tokenizer.json". Raises ModelError when the file is damaged.

    `vocab_size` is one more than the highest id that has a token; the ids of gaps below it decode to nothing, like
    those from there on. `max_token_chars` bounds the characters of a text that one token covers; None: no bound.
    """

    def __init__(self, source: TokenizerSource) -> None:
        self.source = source
        self._library = _read(source)
        added = self._library.get_added_tokens_decoder()
        self._special_ids = frozenset(token_id for token_id, token in added.items() if token.special)
        vocab = self._library.get_vocab(with_added_tokens=True)
        self.vocab_size = 1 + max(vocab.values(), default=-1)
        self.max_token_chars = find_max_token_chars(self._library, vocab, byte_alphabet())
        self._scheme: PieceScheme | None = read_scheme(_decoder_facts(self._library))
        self._pieces: list[bytes | None] = [None] * self.vocab_size
        self._before, self._after = self._frame()

    def encode(self, text: str, special: bool = True) -> list[int]:
        ids = self._encode(text)
        if not special:
            return ids
        if self.source.add_bos and ids[:1] == self._before[-1:]:
            ids = ids[1:]  # the text brings its own BOS, and there shall be one
        return [*self._before, *ids, *self._after]

    def _encode(self, text: str) -> list[int]:
        if len(text) < LONG_TEXT:
            ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        else:
            # Alone among its methods the batched one lets other threads run meanwhile.
            ids = self._library.encode_batch([text], add_special_tokens=False)[0].ids
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        if self._scheme is None:
            return self._decode_with_library([i for i in ids if not self._is_silent(i, skip_special)])
        decoder = self.stream(skip_special)
        return "".join([decoder.feed(token_id) for token_id in ids]) + decoder.finish()

    def stream(self, skip_special: bool = True) -> Decoder:
        if self._scheme is None:
            return WindowDecoder(self._decode_with_library, lambda token_id: self._is_silent(token_id, skip_special))
        return PieceDecoder(self._scheme, self._find_audible_piece if skip_special else self._find_piece)

    def token_bytes(self, token_id: int) -> bytes:
        data = self._find_piece(token_id)
        if data is None:
            raise RequestError(
                f"token id {token_id} has no token; the tokenizer's ids are 0 to {self.vocab_size - 1}",
                code="unknown_token_id",
            )
        return data

    def special_ids(self) -> frozenset[int]:
        return self._special_ids

    def _find_audible_piece(self, token_id: int) -> bytes | None:
        return None if token_id in self._special_ids else self._find_piece(token_id)

    def _find_piece(self, token_id: int) -> bytes | None:
        if not 0 <= token_id < self.vocab_size:
            return None
        data = self._pieces[token_id]
        if data is None:
            token = self._library.id_to_token(token_id)
            if token is None:
                return None
            data = self._scheme.to_bytes(token) if self._scheme else self._decode_with_library([token_id]).encode()
            self._pieces[token_id] = data
        return data

    def _is_silent(self, token_id: int, skip_special: bool) -> bool:
        if skip_special and token_id in self._special_ids:
            return True
        return not 0 <= token_id < self.vocab_size or self._library.id_to_token(token_id) is None

    def _decode_with_library(self, ids: Sequence[int]) -> str:
        return self._library.decode(list(ids), skip_special_tokens=False)

    def _frame(self) -> tuple[list[int], list[int]]:
        """Ids that go before and after a text: what the post-processor adds, corrected by `source.add_bos`."""
        inner = self._library.encode("a", add_special_tokens=False).ids
        outer = self._library.encode("a", add_special_tokens=True).ids
        starts = range(len(outer) - len(inner), -1, -1)
        start = next((at for at in starts if outer[at : at + len(inner)] == inner), None)
        if start is None:
            raise ModelError(f"{self.source.where}: the post-processor changes the tokens of a text, not only its ends")
        before, after = outer[:start], outer[start + len(inner) :]
        bos_id = self.source.bos_id
        if self.source.add_bos is None:
            return before, after
        if bos_id is None:
            raise ModelError(f"{self.source.where}: add_bos is given, but no bos_id that says which token it is")
        before = [token_id for token_id in before if token_id != bos_id]
        return ([*before, bos_id] if self.source.add_bos else before), after


def _read(source: TokenizerSource) -> LibraryTokenizer:
    try:
        library = LibraryTokenizer.from_str(source.data)
    except Exception as error:
        raise ModelError(f"{source.where}: not a usable tokenizer.json: {error}") from error
    # Left on by some training scripts; both would change prompts silently.
    library.no_truncation()
    library.no_padding()
    return library


def _decoder_facts(library: LibraryTokenizer) -> dict[str, Any] | None:
    # The pickled state is the decoder's part of the file, in the library's own spelling; no second parse of the whole.
    return None if library.decoder is None else json.loads(library.decoder.__getstate__())
