"""The bodies of replies, for the server's OpenAPI. They describe what `shapes` and `envelope` write; tests compare."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

__all__ = [
    "ChatReply",
    "CompletionReply",
    "DetokenizeReply",
    "ErrorReply",
    "ModelReply",
    "ModelsReply",
    "TokenizeReply",
]

FinishReason = Literal["stop", "length", "abort"]


class _Described(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class ErrorDetail(_Described):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    """The field at fault."""
    code: str | None


class ErrorReply(_Described):
    """Every error has this shape; in a stream it is an event, and the last one."""

    error: ErrorDetail


class PromptTokensDetails(_Described):
    """Parts of `prompt_tokens`."""

    cached_tokens: int
    """Tokens whose KV was found in the cache."""


class UsageCounts(_Described):
    """Tokens of the whole reply; prompt tokens count once per prompt."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class PromptScore(_Described):
    """A token at one place of the prompt."""

    logprob: float
    rank: int | None
    """1 is the most likely; null beyond the reported alternatives."""
    decoded_token: str


PromptScores = list[dict[str, PromptScore] | None]


class TokenScore(_Described):
    """A token and the natural logarithm of its probability."""

    token: str
    logprob: float
    bytes: list[int]


class ChatTokenScore(TokenScore):
    """A generated token, with alternatives."""

    top_logprobs: list[TokenScore]


class ChatLogprobs(_Described):
    """Generated tokens of a chat completion."""

    content: list[ChatTokenScore]
    refusal: None


class ChatMessage(_Described):
    """The answer."""

    role: Literal["assistant"]
    content: str
    refusal: None


class _ChoiceBase(_Described):
    index: int
    finish_reason: FinishReason
    stop_reason: str | int | None
    """The stop string or stop token id that ended the text."""
    prompt_logprobs: PromptScores = []
    """Only where asked for: token id → score for each token of the prompt, null for the first."""


class ChatChoice(_ChoiceBase):
    """One answer."""

    message: ChatMessage
    logprobs: ChatLogprobs | None


class CompletionLogprobs(_Described):
    """Tokens of the text, one entry each; of the first token of an echoed prompt only text and place are known."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(_ChoiceBase):
    """One text. Choice i of prompt p has the index p · n + i."""

    text: str
    logprobs: CompletionLogprobs | None


class _Head(_Described):
    id: str
    created: int
    model: str
    system_fingerprint: str
    usage: UsageCounts


class ChatReply(_Head):
    """Reply of `/v1/chat/completions`."""

    object: Literal["chat.completion"]
    choices: list[ChatChoice]


class CompletionReply(_Head):
    """Reply of `/v1/completions`."""

    object: Literal["text_completion"]
    choices: list[CompletionChoice]


class TokenizeReply(_Described):
    """Token ids of a prompt."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] = []
    """Only where asked for."""


class DetokenizeReply(_Described):
    """The text of token ids."""

    prompt: str


class ModelReply(_Described):
    """One name that requests may use."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: None
    max_model_len: int
    default_sampling: dict[str, Any]


class ModelsReply(_Described):
    """Every name that requests may use."""

    object: Literal["list"]
    data: list[ModelReply]
