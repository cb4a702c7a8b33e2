"""Messages between the service and the engine. They cross processes as msgpack, so they hold plain data only."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = [
    "GREEDY_BELOW",
    "EngineHealth",
    "EngineOutput",
    "EngineRequest",
    "EngineStats",
    "FinishReason",
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
    max_tokens      None = up to the model's length
    min_tokens      end-of-sequence and stop ids are impossible before
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
    max_tokens: int | None = None
    min_tokens: int = 0


class EngineRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One sequence to generate. `request_id` is unique and ours; `sampling.max_tokens` and `seed` are resolved.

    `eos_ids` end the sequence unless `ignore_eos`; `vocab_size` is the tokenizer's: ids from there on are
    never produced. `priority`: lower runs first. `arrival_s` is wall-clock time.
    """

    request_id: str
    prompt_ids: list[int]
    sampling: SamplingParams
    eos_ids: tuple[int, ...] = ()
    vocab_size: int = 0
    priority: int = 0
    arrival_s: float = 0.0


class TokenLogprobs(msgspec.Struct, frozen=True, array_like=True):
    """Natural logs of probabilities before penalties and filters: the chosen token, then the most likely ones."""

    token_id: int
    logprob: float
    top_ids: list[int]
    top_logprobs: list[float]


class EngineOutput(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """New tokens of one request. The last one carries `finish_reason`.

    `stop_token_id` is the token that ended the sequence, if one did; it is the last of `token_ids`.
    `error` is the message when `finish_reason` is "error".
    """

    request_id: str
    token_ids: list[int] = []
    logprobs: list[TokenLogprobs] | None = None
    finish_reason: FinishReason | None = None
    stop_token_id: int | None = None
    error: str | None = None
    num_cached_tokens: int = 0


class EngineStats(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot of the engine. Blocks and tokens are of the KV cache; counters only grow."""

    num_running: int
    num_waiting: int
    num_blocks: int
    num_free_blocks: int
    block_tokens: int
    capacity_tokens: int
    num_steps: int
    num_preemptions: int
    prompt_tokens: int
    generated_tokens: int


class EngineHealth(msgspec.Struct, frozen=True, kw_only=True):
    """`ready` is whether a request would be served now; `reason` says why not."""

    ready: bool
    reason: str = ""
