"""`VocabularySender`: the bytes of every token for the workers, which need them to forbid words."""

from __future__ import annotations

import asyncio

from infer_api.errors import RequestError
from infer_api.services import EngineClient
from infer_api.tokenizers import Tokenizer

__all__ = ["VocabularySender", "vocabulary_bytes"]


class VocabularySender:
    """Sends the vocabulary to the workers once, before the first request that needs it; the client keeps it there."""

    def __init__(self, engine: EngineClient, tokenizer: Tokenizer, vocab_size: int) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._vocab_size = vocab_size
        self._sending: asyncio.Task[None] | None = None

    async def send(self) -> None:
        """Return once the workers have it. Whoever comes meanwhile waits for the same sending; after a failed one,
        which raises for all who wait, the next caller tries again."""
        if self._sending is None or _has_failed(self._sending):
            self._sending = asyncio.ensure_future(self._send())
        await asyncio.shield(self._sending)  # one who leaves must not end it for the others

    async def _send(self) -> None:
        tokens = await asyncio.to_thread(vocabulary_bytes, self._tokenizer, self._vocab_size)
        await self._engine.control("set_vocabulary", tokens=tokens)


def vocabulary_bytes(tokenizer: Tokenizer, vocab_size: int) -> list[bytes]:
    """Bytes of the text of each token; none for special tokens and for ids without a token."""
    special = tokenizer.special_ids()
    return [b"" if token_id in special else _find_bytes(tokenizer, token_id) for token_id in range(vocab_size)]


def _find_bytes(tokenizer: Tokenizer, token_id: int) -> bytes:
    try:
        return tokenizer.token_bytes(token_id)
    except RequestError:  # a gap in the vocabulary
        return b""


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)
