"""Messages between the service and the engine. They cross processes as msgpack, so they hold plain data only."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "GREEDY_BELOW",
    "EngineHealth",
    "EngineOutput",
    "EngineRequest",
    "EngineStats",
    "FinishReason",
    "RowError",
    "SamplingParams",
    "TokenLogprobs",
]

GREEDY_BELOW = 1e-4
"""Temperatures up to this are greedy: dividing by them would only overflow to the same answer."""

FinishReason = Literal["stop", "length", "abort", "error"]


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How tokens are chosen and when a sequence ends. Values are checked by `infer.service`, once.

    temperature     0 = greedy; below 1e-4 is treated as greedy
    top_k           0 or -1 = off; values from the vocabulary's size on act as off
    top_p, min_p    1.0 and 0.0 = off
    presence_penalty, frequency_penalty   subtracted for generated tokens
    repetition_penalty   1.0 = off; divides (multiplies negative) scores of prompt and generated tokens
    logit_bias      token id -> bias added before anything else
    stop            strings, found in the service; stop_token_ids end a sequence in the engine
    seed            None = a fresh one per request; same seed, same text, whatever else runs
    n               choices per prompt
    logprobs        None = off, else how many of the most likely tokens are reported (0: the chosen one only)
    logprobs_mode   "raw": of what the model said; "processed": after bias, penalties, temperature and filters
    prompt_logprobs None = off, else how many of the most likely tokens are reported for each token of the prompt
    max_tokens      None = up to the model's length; 0 = only score the prompt
    min_tokens      end-of-sequence and stop ids are impossible before
    bad_words       text that must not appear in what is generated, in whatever tokens
    allowed_token_ids   None = all; others are impossible
    processors      logits processor -> its validated parameters, as plain data
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    include_stop_str_in_output: bool = False
    skip_special_tokens: bool = True
    ignore_eos: bool = False
    seed: int | None = None
    n: int = 1
    logprobs: int | None = None
    logprobs_mode: Literal["raw", "processed"] = "raw"
    prompt_logprobs: int | None = None
    max_tokens: int | None = None
    min_tokens: int = 0
    bad_words: tuple[str, ...] = ()
    allowed_token_ids: tuple[int, ...] | None = None
    processors: dict[str, dict[str, Any]] = {}


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sequence to generate. `request_id` is unique and ours; `sampling.max_tokens` and `seed` are resolved.

    `eos_ids` end the sequence unless `ignore_eos`; `vocab_size` is the tokenizer's: ids from there on are
    never produced. `priority`: lower runs first, where the scheduling policy heeds it. `arrival_s` is wall-clock time.

    Prompts share cached KV blocks only within one `cache_salt` and `adapter` (its name and version), and where the
    `media` that lie in the blocks are the same: (first token, tokens, hash of the content), in order.
    """

    request_id: str
    prompt_ids: list[int]
    sampling: SamplingParams
    eos_ids: tuple[int, ...] = ()
    vocab_size: int = 0
    priority: int = 0
    arrival_s: float = 0.0
    cache_salt: str = ""
    adapter: str = ""
    media: tuple[tuple[int, int, str], ...] = ()


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Natural logs of probabilities: the chosen token, then the most likely ones, the best first."""

    token_id: int
    logprob: float
    top_ids: list[int]
    top_logprobs: list[float]


class RowError(msgspec.Struct, frozen=True):
    """Why one request failed while its neighbours went on. 400 where what it asked for cannot be, else 500."""

    message: str
    code: str = "generation_failed"
    status: int = 500


class EngineOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New tokens of one request. The last one carries `finish_reason`.

    `stop_token_id` is the token that ended the sequence, if one did; it is the last of `token_ids`.
    `error` says why when `finish_reason` is "error". The first one carries `queued_s`, seconds from arrival in the
    engine to the first step, and all that have them further `prompt_logprobs`, in order: one entry per token of the
    prompt, the first of them None.
    """

    request_id: str
    token_ids: list[int] = []
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    error: RowError | None = None
    num_cached_tokens: int = 0
    queued_s: float | None = None
    prompt_logprobs: list[TokenLogprobs | None] | None = None


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the engine. Blocks and tokens are of the KV cache; counters only grow.

    Every block is live (some request needs it), cached (reclaimable: found again by its content) or free;
    `num_free_blocks` counts the last two. `cached_tokens` of the `prompt_tokens` had not to be computed.
    """

    num_running: int
    num_waiting: int
    num_blocks: int
    num_free_blocks: int
    num_cached_blocks: int
    block_tokens: int
    capacity_tokens: int
    num_steps: int
    num_preemptions: int
    prompt_tokens: int
    generated_tokens: int
    cached_tokens: int
    started_s: float
    """Wall-clock time when this engine began; another value is another engine, whose counters begin at 0."""
    num_failed_rows: int
    """Rows that a step could not sample, such as those with scores that are not finite."""


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`ready` is whether a request would be served now; `reason` says why not. A `dead` engine never will again."""

    ready: bool
    reason: str = ""
    dead: bool = False
