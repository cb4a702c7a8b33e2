"""Kind `tokenizers`: text to token ids and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["Decoder", "Tokenizer", "TokenizerSource"]


@dataclass(frozen=True)
class TokenizerSource:
    """A tokenizer as a checkpoint describes it, ready for a plugin that reads `format`.

    `format` "tokenizer.json" means: `data` is the text of a Hugging Face tokenizer.json. `chat_templates`
    maps names to Jinja templates ("default" is the usual one). `eos_ids` end a generation, `bos_id` starts a
    text when `add_bos`. `generation` holds default sampling values of the checkpoint (generation_config.json).
    """

    format: str
    data: str
    where: str
    chat_templates: Mapping[str, str] = field(default_factory=dict)
    bos_id: int | None = None
    eos_ids: tuple[int, ...] = ()
    pad_id: int | None = None
    add_bos: bool | None = None
    special_tokens: Mapping[str, str] = field(default_factory=dict)
    """Texts such as {"bos_token": "<s>"} that chat templates refer to."""
    generation: Mapping[str, Any] = field(default_factory=dict)


class Decoder(Protocol):
    """Incremental decoder of one generated sequence; holds back bytes that are not yet a whole character."""

    def feed(self, token_id: int) -> str:
        """Text that became final with this token (often "" in the middle of a character)."""
        ...

    def finish(self) -> str:
        """What is still held back, incomplete characters as U+FFFD."""
        ...


class Tokenizer(Protocol):
    """Built by the manifest's `implementation(source: TokenizerSource)`. Calls are thread-safe."""

    vocab_size: int
    """Number of ids that have a token; a model's output layer may be wider."""

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Token ids of `text`. `special`: add BOS and the like as the tokenizer is configured to.

        Special tokens written out in `text` become their ids.
        """
        ...

    def decode(self, ids: Sequence[int], skip_special: bool = True) -> str:
        """Text of `ids`; ids without a token give nothing."""
        ...

    def stream(self, skip_special: bool = True) -> Decoder:
        """A fresh incremental decoder whose joined output equals `decode` of the same ids."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """Bytes of one token's own text. Raises RequestError for an id without a token."""
        ...

    def special_ids(self) -> frozenset[int]:
        """Ids of control tokens, which `skip_special` leaves out."""
        ...
