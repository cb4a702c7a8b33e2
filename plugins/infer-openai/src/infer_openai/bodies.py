"""The bodies of requests. Types are strict ("5" is no integer), and null means the default."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from infer_api.errors import RequestError
from infer_openai.prompts import read_prompts
from infer_openai.screening import screen

__all__ = ["ChatBody", "CompletionBody", "DetokenizeBody", "SamplingBody", "StreamOptions", "TokenizeBody"]


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _first_wrong_bias(value: Any) -> Any:
    """Refuse at the first value that is no number: pydantic would describe every wrong one, for seconds."""
    for key, bias in value.items() if isinstance(value, dict) else ():
        if isinstance(bias, bool) or not isinstance(bias, int | float) or not abs(bias) <= _MAX_FLOAT:
            path = f"logit_bias.{key[:40]}"
            raise RequestError(f"{path} must be a number", param=path, code="invalid_type")
    return value


def _first_wrong_processor(value: Any) -> Any:
    """Refuse at the first processor whose parameters are no object, as for biases."""
    for name, parameters in value.items() if isinstance(value, dict) else ():
        if not isinstance(parameters, dict):
            path = f"logits_processors.{name[:40]}"
            raise RequestError(f"{path} must be an object of parameters", param=path, code="invalid_type")
    return value


_MAX_FLOAT = sys.float_info.max
_STRING = {"type": "string"}
_IDS = {"type": "array", "items": {"type": "integer"}}
_STRINGS = {"type": "array", "items": _STRING}
_TEXT_OR_IDS = {"anyOf": [_STRING, _STRINGS, _IDS, {"type": "array", "items": _IDS}]}

Prompts = Annotated[Any, BeforeValidator(read_prompts), WithJsonSchema(_TEXT_OR_IDS)]
# Lists fail at their first wrong element, since a body may hold millions of them.
Stop = Annotated[
    list[str], Field(fail_fast=True), BeforeValidator(_as_list), WithJsonSchema({"anyOf": [_STRING, _STRINGS]})
]
Bias = Annotated[dict[str, float], BeforeValidator(_first_wrong_bias)]
Ids = Annotated[list[int], Field(fail_fast=True)]
Strings = Annotated[list[str], Field(fail_fast=True)]
Processors = Annotated[dict[str, dict[str, Any]], BeforeValidator(_first_wrong_processor)]
Objects = Annotated[list[dict[str, Any]], Field(fail_fast=True)]


class Body(BaseModel):
    """Base of all bodies: fields are screened first, so what is left is known and not null."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _screened(cls, data: Any) -> Any:
        return screen(data, cls.model_fields) if isinstance(data, dict) else data


class StreamOptions(Body):
    """What a stream carries beside the text."""

    include_usage: bool = False
    """Send one more chunk with the token counts before the end."""
    include_obfuscation: bool = False
    """Accepted; chunks are never padded."""


class SamplingBody(Body):
    """Fields that both kinds of completions share. A field that is not sent takes the checkpoint's default."""

    model: str | None = None
    """One of the served names (default: the first)."""
    stream: bool = False
    """Answer with server-sent events."""
    stream_options: StreamOptions | None = None
    """Only with `stream`."""
    n: int | None = None
    """Choices per prompt."""
    max_tokens: int | None = None
    """Most tokens to generate."""
    min_tokens: int | None = None
    """Tokens to generate before anything may end the text."""
    temperature: float | None = None
    """0 is greedy."""
    top_p: float | None = None
    """Keep the most likely tokens up to this share."""
    top_k: int | None = None
    """Keep this many of the most likely tokens; 0 and -1 are off."""
    min_p: float | None = None
    """Keep tokens at least this likely, relative to the most likely one."""
    presence_penalty: float | None = None
    """Subtracted from the score of tokens that were generated."""
    frequency_penalty: float | None = None
    """Subtracted for each time that a token was generated."""
    repetition_penalty: float | None = None
    """Divides the score of tokens in prompt and text; 1 is off."""
    logit_bias: Bias | None = None
    """Token id → bias from -100 to 100."""
    stop: Stop | None = None
    """Strings that end the text."""
    stop_token_ids: Ids | None = None
    """Token ids that end the text."""
    include_stop_str_in_output: bool | None = None
    """Keep the stop string in the text."""
    ignore_eos: bool | None = None
    """Go on after the end-of-sequence token."""
    skip_special_tokens: bool | None = None
    """Leave special tokens out of the text (default true)."""
    seed: int | None = None
    """Same seed, same text."""
    bad_words: Strings | None = None
    """Text that must not appear in what is generated, in whatever tokens."""
    allowed_token_ids: Ids | None = None
    """Only these tokens are generated."""
    prompt_logprobs: int | None = None
    """Report each token of the prompt and this many alternatives; with `max_tokens` 0 nothing is generated."""
    logprobs_mode: Literal["raw", "processed"] | None = None
    """Report what the model said ("raw", the default), or what was drawn from ("processed")."""
    priority: int | None = None
    """Lower runs first, where the server's scheduling policy heeds it."""
    cache_salt: str | None = None
    """Cached prompts are shared only among requests with the same salt."""
    logits_processors: Processors | None = None
    """Logits processor → its parameters. With OpenAI's client: `extra_body={"logits_processors": {…}}`."""


class CompletionBody(SamplingBody):
    """Body of `/v1/completions`."""

    prompt: Prompts
    """Text, token ids, or a list of either."""
    max_tokens: int = 16
    """Most tokens to generate."""
    logprobs: int | None = None
    """Report the generated tokens and this many alternatives for each."""
    echo: bool = False
    """Begin the text with the prompt."""
    best_of: int | None = None
    """Accepted when equal to `n`."""
    add_special_tokens: bool = True
    """Let the tokenizer put its own tokens (such as begin-of-sequence) around text prompts."""


class ChatBody(SamplingBody):
    """Body of `/v1/chat/completions`."""

    messages: Objects
    """The conversation. Content is a string or a list of text parts."""
    max_completion_tokens: int | None = None
    """Newer name of `max_tokens`."""
    logprobs: bool = False
    """Report the generated tokens."""
    top_logprobs: int | None = None
    """Alternatives reported per token; only with `logprobs`."""
    tools: Objects | None = None
    """Functions that the chat template tells the model of. The answer stays plain text."""
    tool_choice: Any = None
    """"none" hides the tools from the model; "auto" is the default."""
    chat_template_kwargs: dict[str, Any] | None = None
    """More variables for the chat template."""


class TokenizeBody(Body):
    """Body of `/tokenize`: `prompt` or `messages`."""

    model: str | None = None
    """One of the served names (default: the first)."""
    prompt: str | None = None
    """Text to tokenize."""
    messages: Objects | None = None
    """A conversation, which the chat template is applied to."""
    tools: Objects | None = None
    """As in a chat completion."""
    chat_template_kwargs: dict[str, Any] | None = None
    """As in a chat completion."""
    add_special_tokens: bool = True
    """For `prompt`: let the tokenizer add its own tokens."""
    return_token_strs: bool = False
    """Also give the text of each token."""


class DetokenizeBody(Body):
    """Body of `/detokenize`."""

    model: str | None = None
    """One of the served names (default: the first)."""
    tokens: Ids
    """Token ids."""
