"""`TextRenderer`: messages, text or token ids of a client → a prompt for the engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from infer.text.chat_template import ChatTemplate
from infer.text.messages import normalise_messages
from infer_api.errors import RequestError
from infer_api.services import Rendered
from infer_api.tokenizers import Tokenizer

__all__ = ["TextRenderer"]


class TextRenderer:
    """The `Renderer` of a model. Without a tokenizer only prompts of token ids work; without a template no chat.

    Text that cannot fit `max_model_len` is refused before tokenizing it, where the tokenizer says `max_token_chars`.
    """

    def __init__(
        self, tokenizer: Tokenizer | None, template: ChatTemplate | None, vocab_size: int, max_model_len: int
    ) -> None:
        self.tokenizer = tokenizer
        self._template = template
        self._vocab_size = vocab_size
        max_token_chars = getattr(tokenizer, "max_token_chars", None)
        self._max_chars = None if max_token_chars is None else max_token_chars * max_model_len

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Rendered:
        plain = normalise_messages(messages)
        tokenizer = self._get_tokenizer("messages")
        if self._template is None:
            raise RequestError(
                "this model has no chat template, so it answers completions only; start the server with "
                "--chat-template FILE to chat with it",
                param="messages",
                code="no_chat_template",
            )
        text = self._encodable(self._template.render(plain, tools, options), "messages")
        # The template writes BOS and the like itself.
        return Rendered(tuple(tokenizer.encode(text, special=False)), text, param="messages")

    def text(self, prompt: str | Sequence[int], *, special: bool = True, param: str = "prompt") -> Rendered:
        if isinstance(prompt, str):
            ids = self._get_tokenizer(param).encode(self._encodable(prompt, param), special=special)
            return Rendered(tuple(ids), prompt, param=param)
        is_list = isinstance(prompt, Sequence) and not isinstance(prompt, bytes)
        if not is_list:
            raise RequestError(f"{param} must be text or a list of token ids, found {prompt!r:.40}", param=param)
        for at, token_id in enumerate(prompt):
            is_id = isinstance(token_id, int) and not isinstance(token_id, bool)
            if not is_id or not 0 <= token_id < self._vocab_size:
                message = f"{param}[{at}] must be a token id from 0 to {self._vocab_size - 1}, found {token_id!r:.40}"
                raise RequestError(message, param=param)
        return Rendered(tuple(prompt), param=param)

    def detokenize(self, ids: Sequence[int]) -> str:
        return self._get_tokenizer("tokens").decode(ids, skip_special=False)

    def token_text(self, token_id: int) -> str:
        return self._get_tokenizer("tokens").token_bytes(token_id).decode("utf-8", "replace")

    def _get_tokenizer(self, param: str) -> Tokenizer:
        if self.tokenizer is None:
            message = "this model has no tokenizer; send token ids, or start with --tokenizer FILE"
            raise RequestError(message, param=param, code="no_tokenizer")
        return self.tokenizer

    def _encodable(self, text: str, param: str) -> str:
        """`text`, unless JSON escapes smuggled half a character into it, which no tokenizer can take; or too long."""
        if self._max_chars is not None and len(text) > self._max_chars:
            message = f"{param} has {len(text)} characters, which cannot fit the model's context (--max-model-len)"
            raise RequestError(message, param=param, code="context_length_exceeded")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(
                f"{param} holds half of a surrogate pair (\\u{ord(text[error.start]):04x}), which is no character",
                param=param,
                code="invalid_unicode",
            ) from None
        return text
