"""Fields of a body → `SamplingParams`. What a request says wins over the checkpoint's defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Limits, ModelCard, Rendered
from infer_openai.bodies import ChatBody, CompletionBody, SamplingBody

__all__ = ["chat_sampling", "completion_sampling", "wants_usage"]

_MAX_ID_DIGITS = 12
_FIELDS = frozenset(SamplingParams.__struct_fields__)


def completion_sampling(body: CompletionBody, card: ModelCard, prompts: Sequence[Rendered]) -> SamplingParams:
    """Sampling of a completion. Raises RequestError for combinations that nobody implements."""
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise RequestError(
            f"best_of {body.best_of} is not supported: leave it out, or make it equal to n",
            param="best_of",
            code="unsupported_parameter",
        )
    max_tokens = body.max_tokens
    if "max_tokens" not in body.model_fields_set:
        # OpenAI's default, whatever the checkpoint says; nobody asked for it, so it must not be what does not fit.
        longest = max((len(prompt.prompt_ids) for prompt in prompts), default=0)
        max_tokens = max(1, min(max_tokens, card.max_model_len - longest))
    settled = {"prompt_logprobs": scores} if (scores := _prompt_scores(body)) is not None else {}
    return _params(body, card, max_tokens=max_tokens, logprobs=body.logprobs, **settled)


def chat_sampling(body: ChatBody, card: ModelCard, limits: Limits) -> SamplingParams:
    """Sampling of a chat completion. Raises RequestError for fields that contradict each other."""
    if body.top_logprobs is not None:
        if not body.logprobs:
            raise RequestError("top_logprobs needs logprobs: true", param="top_logprobs")
        if not 0 <= body.top_logprobs <= limits.max_logprobs:
            raise RequestError(
                f"top_logprobs must be from 0 to {limits.max_logprobs} (--max-logprobs), found {body.top_logprobs}",
                param="top_logprobs",
            )
    logprobs = (body.top_logprobs or 0) if body.logprobs else None
    return _params(body, card, logprobs=logprobs, **_length(body))


def wants_usage(body: SamplingBody) -> bool:
    """Whether a stream ends with the token counts. Raises RequestError for stream options without a stream."""
    if body.stream_options is None:
        return False
    if not body.stream:
        raise RequestError("stream_options needs stream: true", param="stream_options")
    return body.stream_options.include_usage


def _prompt_scores(body: CompletionBody) -> int | None:
    """Alternatives for each token of the prompt: an echo with logprobs reports them, too."""
    asked = [body.prompt_logprobs, body.logprobs if body.echo else None]
    if body.echo and body.max_tokens == 0:
        asked.append(0)  # only the prompt comes back, which an engine does for nothing but its scores
    return max((count for count in asked if count is not None), default=None)


def _length(body: ChatBody) -> dict[str, int]:
    lengths = {value for value in (body.max_tokens, body.max_completion_tokens) if value is not None}
    if len(lengths) > 1:
        raise RequestError(
            "max_tokens and max_completion_tokens are two names of one limit: send one of them", param="max_tokens"
        )
    return {"max_tokens": lengths.pop()} if lengths else {}


def _params(body: SamplingBody, card: ModelCard, **settled: Any) -> SamplingParams:
    defaults = {name: value for name, value in card.defaults.items() if name in _FIELDS}
    asked = {name: _plain(name, getattr(body, name)) for name in body.model_fields_set & _FIELDS}
    if body.logits_processors is not None:
        asked["processors"] = body.logits_processors
    return SamplingParams(**{**defaults, **asked, **settled})


def _plain(name: str, value: Any) -> Any:
    if name == "logit_bias":
        return {_token_id(key): bias for key, bias in value.items()}
    return tuple(value) if isinstance(value, list) else value


def _token_id(key: str) -> int:
    if key.isascii() and key.isdigit() and len(key) <= _MAX_ID_DIGITS:
        return int(key)
    raise RequestError(f"logit_bias has the key {key[:40]!r}, which is no token id", param="logit_bias")
