"""What the serving side offers to routes, commands and notebooks: rendering, generation, events.

One request goes: messages or text → `Renderer` → `Rendered` → `OutputPipeline.stream` → events → reply. The
non-streamed reply is `collect` over the same events, so both kinds of answers come from one code path.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats, SamplingParams

__all__ = [
    "LOGPROB_FLOOR",
    "Choice",
    "EngineClient",
    "Event",
    "Finished",
    "Guard",
    "Limits",
    "ModelCard",
    "OutputPipeline",
    "PromptScored",
    "Rendered",
    "Renderer",
    "Reply",
    "ReplyFinish",
    "RequestRecord",
    "Services",
    "TextDelta",
    "TokenText",
    "Usage",
]

LOGPROB_FLOOR = -9999.0
"""What is reported for the logarithm of a probability of zero: JSON has no -Infinity."""

ReplyFinish = Literal["stop", "length", "abort"]


@dataclass(frozen=True)
class Rendered:
    """A prompt ready for the engine. `text` is None when the client sent token ids.

    `param` is the request field it came from ("prompt[1]", "messages"), for errors found later. `priority` and
    `cache_salt` go to the engine as they are.
    """

    prompt_ids: tuple[int, ...]
    text: str | None = None
    param: str = "prompt"
    priority: int = 0
    cache_salt: str = ""


@dataclass(frozen=True)
class TokenText:
    """One token in a logprobs report: its own text and bytes, and the natural log of its probability."""

    token_id: int
    text: str
    bytes: tuple[int, ...]
    logprob: float | None
    top: tuple[TokenText, ...] = ()


@dataclass(frozen=True)
class TextDelta:
    """New text of choice `index` (prompt · n + choice). `tokens` is filled when logprobs were asked for.

    `token_ids` are the tokens generated since the last delta, the end-of-sequence token included. `tokens` leaves out
    what is not in the text: the token that ended the sequence, and those of a stop string.
    """

    index: int
    text: str
    tokens: tuple[TokenText, ...] = ()
    token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class PromptScored:
    """The tokens of the prompt of choice `index` with their scores, before its first text; of the first token only
    its own text is known, and its `logprob` is None."""

    index: int
    tokens: tuple[TokenText, ...]


@dataclass(frozen=True)
class Finished:
    """Choice `index` has ended; exactly one per choice, after its last text.

    `stop_reason` is the stop string or stop token id that ended it, None for end-of-sequence and length.
    """

    index: int
    reason: ReplyFinish
    stop_reason: str | int | None = None


@dataclass(frozen=True)
class Usage:
    """Token counts of the whole call; exactly one, the last event. Prompt tokens count once per prompt."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


Event = PromptScored | TextDelta | Finished | Usage


@dataclass(frozen=True)
class Choice:
    """One finished choice of a reply."""

    index: int
    text: str
    finish_reason: ReplyFinish
    stop_reason: str | int | None = None
    tokens: tuple[TokenText, ...] = ()
    token_ids: tuple[int, ...] = ()
    prompt_tokens: tuple[TokenText, ...] | None = None


@dataclass(frozen=True)
class RequestRecord:
    """What one choice was and did, told when it has ended. Times in seconds; `arrival_s` is wall-clock time.

    `request_id` is the engine's, `call_id` that of the reply it belongs to, `client_id` the HTTP request's
    `X-Request-Id`. `queued_s` is None when no step began, `first_token_s` (from arrival) when no token came.
    `gaps_s` are the times between tokens; tokens that came together share one gap. `error` is (code, message).
    """

    request_id: str
    call_id: str
    client_id: str
    model: str
    finish_reason: str
    num_prompt_tokens: int
    num_cached_tokens: int
    num_generated_tokens: int
    arrival_s: float
    queued_s: float | None
    first_token_s: float | None
    total_s: float
    gaps_s: tuple[float, ...]
    sampling: SamplingParams
    error: tuple[str, str] | None = None
    traceparent: str = ""
    """What the client sent as such (W3C Trace Context), unchecked."""


@dataclass(frozen=True)
class Reply:
    """All choices in order of index, and the usage."""

    choices: tuple[Choice, ...]
    usage: Usage


@dataclass(frozen=True)
class ModelCard:
    """One served model: the names clients may use, its length in tokens, and the checkpoint's default sampling."""

    id: str
    aliases: tuple[str, ...]
    max_model_len: int
    vocab_size: int
    created_s: int
    has_chat_template: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)


class EngineClient(Protocol):
    """The engine, wherever it runs. Coroutines of one event loop; safe for many requests at once."""

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Outputs of one request. Closing the iterator early aborts the request.

        Raises RequestError when it is refused, EngineDeadError when the engine stops.
        """
        ...

    async def abort(self, request_ids: Sequence[str]) -> None:
        """End requests wherever they are; unknown ids are ignored."""
        ...

    async def stats(self) -> EngineStats: ...

    async def reset_cache(self) -> bool:
        """Forget every cached prefix. False when requests run: blocks they use are forgotten when they end."""
        ...

    async def control(self, name: str, **args: Any) -> Any:
        """A call to the workers outside of steps, such as `set_vocabulary(tokens=…)`. Raises what it raised there."""
        ...

    async def health(self) -> EngineHealth: ...

    async def close(self) -> None:
        """Stop the engine and free what it holds."""
        ...


class Renderer(Protocol):
    """Turns what clients send into token ids. Raises RequestError (400) for what cannot be rendered."""

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Rendered:
        """Apply the chat template. `options` are extra template variables."""
        ...

    def text(self, prompt: str | Sequence[int], *, special: bool = True, param: str = "prompt") -> Rendered:
        """A plain prompt, or token ids checked against the vocabulary."""
        ...

    def detokenize(self, ids: Sequence[int]) -> str: ...

    def token_text(self, token_id: int) -> str:
        """A token's own text, with U+FFFD for bytes that are no whole character."""
        ...


class OutputPipeline(Protocol):
    """Engine outputs → text, in a fixed order: detokenize → stop strings → (parsers) → events.

    The final flush passes through all of it.
    """

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        """Validate against model, vocabulary and limits, and settle special values. Raises RequestError (400).

        `max_tokens` None stays None: `stream` takes what each prompt leaves. The checkpoint's default values are
        the caller's to put in where a client says nothing (`ModelCard.defaults`).
        """
        ...

    def stream(
        self,
        prompts: Sequence[Rendered],
        sampling: SamplingParams,
        *,
        request_id: str,
        client_id: str = "",
        traceparent: str = "",
    ) -> AsyncIterator[Event]:
        """Run `sampling.n` choices of every prompt and yield events as they come. Closing it aborts all of them.

        `request_id` is the reply's, `client_id` and `traceparent` what the client sent; for logs and records only.
        Call `check` first. Raises RequestError or EngineDeadError from the first iteration on.
        """
        ...

    async def collect(self, events: AsyncIterator[Event]) -> Reply:
        """Join a stream's events into the whole reply."""
        ...


@dataclass(frozen=True)
class Limits:
    """What one HTTP request may ask for; each is a `server` option."""

    max_body_bytes: int
    max_n: int
    max_logprobs: int
    max_stop: int
    max_logit_bias: int
    max_prompts: int
    max_bad_words: int
    max_token_ids: int
    max_json_depth: int
    max_prompt_tokens: int | None
    max_sequences: int
    """Choices over all prompts that can run and wait altogether; more could never be admitted together."""


class Guard(Protocol):
    """Checks API keys; one for the whole server."""

    def allows(self, authorization: str | None) -> bool:
        """Whether the value of an `Authorization` header may pass. Compares in constant time."""
        ...


@dataclass(frozen=True)
class Services:
    """Everything a routes plugin gets. `plugins` and `server` are plain data for listings."""

    engine: EngineClient
    renderer: Renderer
    outputs: OutputPipeline
    models: tuple[ModelCard, ...]
    guard: Guard
    limits: Limits
    version: str
    fingerprint: str
    plugins: tuple[Mapping[str, Any], ...] = ()
    processors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Logits processors that requests may use: name -> JSON schema of their parameters."""
    add_hooks: Callable[[object, str], None] = lambda hooks, name: None
    """Registers an object with methods marked `hookimpl`, under a name: for plugins that are more than hooks."""
    tell: Callable[..., None] = lambda hook, **facts: None
    """Calls a hook: `tell("infer_response_sent", method="GET", …)`."""
