"""A tokenizer whose ids are bytes: id = byte value, then BOS, EOS and PAD."""

from __future__ import annotations

import codecs
from collections.abc import Sequence

from infer_api.errors import RequestError
from infer_api.tokenizers import TokenizerSource

__all__ = ["BOS_ID", "EOS_ID", "PAD_ID", "ByteTokenizer", "byte_source"]

BOS_ID, EOS_ID, PAD_ID = 256, 257, 258
SPECIAL_TEXT = {BOS_ID: b"<s>", EOS_ID: b"</s>", PAD_ID: b"<pad>"}


def byte_source(*, add_bos: bool = True) -> TokenizerSource:
    """Where a ByteTokenizer says it comes from, with a one-line chat template."""
    template = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"
    return TokenizerSource(
        format="bytes",
        data="",
        where="memory",
        chat_templates={"default": template},
        bos_id=BOS_ID,
        eos_ids=(EOS_ID,),
        pad_id=PAD_ID,
        add_bos=add_bos,
        special_tokens={"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>"},
    )


class ByteDecoder:
    """Holds back the bytes of an unfinished character."""

    def __init__(self, skip_special: bool) -> None:
        self._skip_special = skip_special
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode

    def feed(self, token_id: int) -> str:
        if token_id in SPECIAL_TEXT:
            # A control token ends a character, finished or not.
            return self.finish() + ("" if self._skip_special else SPECIAL_TEXT[token_id].decode())
        return self._decode(bytes([token_id])) if 0 <= token_id < 256 else ""

    def finish(self) -> str:
        return self._decode(b"", final=True)


class ByteTokenizer:
    """Implements `infer_api.tokenizers.Tokenizer`."""

    def __init__(self, source: TokenizerSource | None = None) -> None:
        self.source = source or byte_source()
        self.vocab_size = 256 + len(SPECIAL_TEXT)

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Special tokens written out in `text` become their ids."""
        data, ids = text.encode(), [BOS_ID] if special and self.source.add_bos else []
        while data:
            found = next((i for i, name in SPECIAL_TEXT.items() if data.startswith(name)), None)
            ids.append(data[0] if found is None else found)
            data = data[1 if found is None else len(SPECIAL_TEXT[found]) :]
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        decoder = self.stream(skip_special)
        return "".join(decoder.feed(token_id) for token_id in ids) + decoder.finish()

    def stream(self, skip_special: bool = True) -> ByteDecoder:
        return ByteDecoder(skip_special)

    def token_bytes(self, token_id: int) -> bytes:
        if not 0 <= token_id < self.vocab_size:
            raise RequestError(f"token id {token_id} has no token; the ids are 0 to {self.vocab_size - 1}")
        return SPECIAL_TEXT.get(token_id) or bytes([token_id])

    def special_ids(self) -> frozenset[int]:
        return frozenset(SPECIAL_TEXT)
