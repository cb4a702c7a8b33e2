"""Sampling parameters of one request against model, vocabulary and limits: refused before the engine hears of it.

    field                       allowed                          settled to
    temperature                 0 … 100                          up to 1e-4: 0 (greedy)
    top_k                       -1 and up; 0 and -1 are off      vocabulary and up: 0
    top_p                       0 … 1                            0: top_k 1
    min_p                       0 … 1
    presence/frequency_penalty  -2 … 2
    repetition_penalty          0.01 … 100
    logit_bias                  ids of the vocabulary, -100 … 100
    seed                        -2^63 … 2^63 - 1                 taken modulo 2^63
    max_tokens                  1 … what the prompts leave       None stays None
                                0 only with prompt_logprobs
    bad_words                   text that is not blank
    allowed_token_ids           ids of the vocabulary            in order, each once
    processors                  as each processor says           plain data with all defaults

Types are checked too, since clients send JSON. NaN and infinity are refused everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec

from infer.service.processors import CheckParameters, check_processors
from infer_api.errors import RequestError
from infer_api.requests import GREEDY_BELOW, SamplingParams
from infer_api.services import Limits, ModelCard, Rendered

__all__ = ["check_prompts", "check_sampling", "check_scores"]

MAX_TEMPERATURE = 100.0
MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY = 0.01, 100.0
"""Scores are multiplied and divided by it: much nearer to 0 they would leave the range of float32."""
SEED_MODULUS = 2**63
MAX_STOP_CHARS = 1000
"""Longest stop string or bad word: a table is made for each of its characters, for every choice."""
MAX_PROMPT_SCORES = 250_000
"""Tokens and alternatives that one request may have reported for its prompts; each takes some 400 bytes here."""
MAX_PRIORITY = 2**31
MAX_SALT_CHARS = 256


def check_sampling(
    params: SamplingParams,
    card: ModelCard,
    limits: Limits,
    prompts: Sequence[Rendered],
    processors: Mapping[str, CheckParameters] | None = None,
) -> SamplingParams:
    """`params` with special values settled. Raises RequestError (400) whose `param` names the field or prompt."""
    check_prompts(prompts, card, limits, room=0 if params.max_tokens == 0 else 1)
    check_scores(params)
    _check_counts(params, card, limits, len(prompts))
    _check_lengths(params, card, prompts)
    _check_prompt_scores(params, prompts)
    top_k = params.top_k if 0 < params.top_k < card.vocab_size else 0
    return msgspec.structs.replace(
        params,
        temperature=0.0 if params.temperature <= GREEDY_BELOW else float(params.temperature),
        top_k=1 if params.top_p == 0 else top_k,
        top_p=float(params.top_p) or 1.0,
        seed=None if params.seed is None else params.seed % SEED_MODULUS,
        stop=_checked_stop(params.stop, limits),
        stop_token_ids=_checked_ids("stop_token_ids", params.stop_token_ids, card, limits),
        logit_bias=_checked_bias(params.logit_bias, card, limits),
        bad_words=_checked_bad_words(params.bad_words, limits),
        allowed_token_ids=_checked_allowed(params.allowed_token_ids, card, limits),
        processors=check_processors(params.processors, processors or {}),
    )


def check_prompts(prompts: Sequence[Rendered], card: ModelCard, limits: Limits, *, room: int = 1) -> None:
    """Refuse no prompts, too many, one without tokens or with unknown ones, and one that leaves no room to answer.

    An answer takes at least `room` tokens.
    """
    if not prompts:
        raise RequestError("the request holds no prompt; send at least one", param="prompt", code="empty_prompt")
    if len(prompts) > limits.max_prompts:
        _refuse("prompt", f"{len(prompts)} prompts", f"at most {limits.max_prompts} (--server.max-prompts)")
    for prompt in prompts:
        num_tokens = len(prompt.prompt_ids)
        if num_tokens == 0:
            message = f"{prompt.param} has no tokens; send at least one character or token id"
            raise RequestError(message, param=prompt.param, code="empty_prompt")
        if max(prompt.prompt_ids) >= card.vocab_size:  # a tokenizer may have more tokens than the model
            message = (
                f"{prompt.param} has the token {max(prompt.prompt_ids)}, which the model of {card.vocab_size} lacks"
            )
            raise RequestError(message, param=prompt.param, code="unknown_token_id")
        if num_tokens + room > card.max_model_len:
            generating = "with one token to generate, " if room else ""
            raise RequestError(
                f"{prompt.param} has {num_tokens} tokens; {generating}at most "
                f"{card.max_model_len - room} fit the model's {card.max_model_len} (--max-model-len)",
                param=prompt.param,
                code="context_length_exceeded",
            )
        if limits.max_prompt_tokens is not None and num_tokens > limits.max_prompt_tokens:
            raise RequestError(
                f"{prompt.param} has {num_tokens} tokens; at most {limits.max_prompt_tokens} are allowed "
                "(--server.max-prompt-tokens)",
                param=prompt.param,
                code="context_length_exceeded",
            )
        _check_integer("priority", prompt.priority, -MAX_PRIORITY, MAX_PRIORITY)
        if not isinstance(prompt.cache_salt, str) or len(prompt.cache_salt) > MAX_SALT_CHARS:
            _refuse("cache_salt", _shown(prompt.cache_salt), f"a string of at most {MAX_SALT_CHARS} characters")


def check_scores(params: SamplingParams) -> None:
    """Of the values that a checkpoint may recommend, too, each alone. Raises RequestError naming the field."""
    _check_number("temperature", params.temperature, 0, MAX_TEMPERATURE)
    _check_number("top_p", params.top_p, 0, 1)
    _check_number("min_p", params.min_p, 0, 1)
    _check_number("presence_penalty", params.presence_penalty, -2, 2)
    _check_number("frequency_penalty", params.frequency_penalty, -2, 2)
    _check_number("repetition_penalty", params.repetition_penalty, MIN_REPETITION_PENALTY, MAX_REPETITION_PENALTY)
    _check_integer("top_k", params.top_k, -1, None, hint="0 and -1 are off")


def _check_counts(params: SamplingParams, card: ModelCard, limits: Limits, num_prompts: int) -> None:
    _check_integer("n", params.n, 1, limits.max_n, hint="the limit is --server.max-n")
    if num_prompts * params.n > limits.max_sequences:
        allowed = f"at most {limits.max_sequences} choices over all prompts, which is what can run and wait here"
        _refuse("n", f"{num_prompts} prompts x {params.n}", f"{allowed} (--max-num-seqs + --max-waiting)")
    if params.seed is not None:
        _check_integer("seed", params.seed, -SEED_MODULUS, SEED_MODULUS - 1)
    most = min(limits.max_logprobs, card.vocab_size)
    for name, count in (("logprobs", params.logprobs), ("prompt_logprobs", params.prompt_logprobs)):
        if count is not None:
            _check_integer(name, count, 0, most, hint="the limit is --max-logprobs")
    if params.logprobs_mode not in ("raw", "processed"):
        _refuse("logprobs_mode", _shown(params.logprobs_mode), "'raw' or 'processed'")


def _check_lengths(params: SamplingParams, card: ModelCard, prompts: Sequence[Rendered]) -> None:
    longest = max(prompts, key=lambda prompt: len(prompt.prompt_ids))
    room = card.max_model_len - len(longest.prompt_ids)
    if params.max_tokens is not None:
        scores = params.prompt_logprobs is not None
        hint = "" if scores else "0 only to score the prompt: with prompt_logprobs, or echo and logprobs"
        _check_integer("max_tokens", params.max_tokens, 0 if scores else 1, None, hint=hint)
        if params.max_tokens == 0 and params.n != 1:
            _refuse("n", f"{params.n} with max_tokens 0", "1 where a prompt is only scored")
        if params.max_tokens > room:
            raise RequestError(
                f"max_tokens {params.max_tokens} plus the {len(longest.prompt_ids)} tokens of {longest.param} exceed "
                f"the model's {card.max_model_len} (--max-model-len); ask for at most {room}",
                param="max_tokens",
                code="context_length_exceeded",
            )
    most = room if params.max_tokens is None else params.max_tokens
    _check_integer("min_tokens", params.min_tokens, 0, most, hint="the upper end is max_tokens")


def _check_prompt_scores(params: SamplingParams, prompts: Sequence[Rendered]) -> None:
    if params.prompt_logprobs is None:
        return
    count = params.n * (1 + params.prompt_logprobs) * sum(len(prompt.prompt_ids) for prompt in prompts)
    if count > MAX_PROMPT_SCORES:
        message = (
            f"prompt_logprobs asks for {count} entries (tokens of the prompts x n x (1 + alternatives)), at most "
            f"{MAX_PROMPT_SCORES} are allowed; send fewer prompts, a smaller n or fewer alternatives"
        )
        raise RequestError(message, param="prompt_logprobs")


def _checked_stop(stop: Any, limits: Limits) -> tuple[str, ...]:
    if isinstance(stop, str) or not isinstance(stop, Sequence):
        _refuse("stop", repr(stop), "a list of strings")
    if len(stop) > limits.max_stop:
        _refuse("stop", f"{len(stop)} strings", f"at most {limits.max_stop} (--server.max-stop)")
    for at, text in enumerate(stop):
        if not isinstance(text, str) or not text:
            _refuse(f"stop[{at}]", repr(text), "a string of at least one character")
        if len(text) > MAX_STOP_CHARS:
            _refuse(f"stop[{at}]", f"one of {len(text)}", f"a string of at most {MAX_STOP_CHARS} characters")
    return tuple(stop)


def _checked_bad_words(words: Any, limits: Limits) -> tuple[str, ...]:
    if isinstance(words, str) or not isinstance(words, Sequence):
        _refuse("bad_words", _shown(words), "a list of strings")
    if len(words) > limits.max_bad_words:
        _refuse("bad_words", f"{len(words)} strings", f"at most {limits.max_bad_words} (--server.max-bad-words)")
    for at, text in enumerate(words):
        if not isinstance(text, str) or not text.strip():
            _refuse(f"bad_words[{at}]", _shown(text), "a string that is not blank")
        if len(text) > MAX_STOP_CHARS:
            _refuse(f"bad_words[{at}]", f"one of {len(text)}", f"a string of at most {MAX_STOP_CHARS} characters")
        if any("\ud800" <= char <= "\udfff" for char in text):
            _refuse(f"bad_words[{at}]", _shown(text), "whole characters, not half of a surrogate pair")
    return tuple(dict.fromkeys(words))


def _checked_allowed(ids: Any, card: ModelCard, limits: Limits) -> tuple[int, ...] | None:
    if ids is None:
        return None
    checked = _checked_ids("allowed_token_ids", ids, card, limits)
    if not checked:
        _refuse("allowed_token_ids", "an empty one", "a list of at least one token id")
    return tuple(sorted(checked))


def _checked_ids(param: str, ids: Any, card: ModelCard, limits: Limits) -> tuple[int, ...]:
    if isinstance(ids, str | bytes) or not isinstance(ids, Sequence):
        _refuse(param, _shown(ids), "a list of token ids")
    if len(ids) > limits.max_token_ids:
        _refuse(param, f"{len(ids)} ids", f"at most {limits.max_token_ids} (--server.max-token-ids)")
    for at, token_id in enumerate(ids):
        _check_integer(f"{param}[{at}]", token_id, 0, card.vocab_size - 1, hint="the vocabulary's ids")
    return tuple(dict.fromkeys(ids))


def _checked_bias(bias: Any, card: ModelCard, limits: Limits) -> dict[int, float]:
    if not isinstance(bias, Mapping):
        _refuse("logit_bias", repr(bias), "an object of token id -> bias")
    if len(bias) > limits.max_logit_bias:
        _refuse("logit_bias", f"{len(bias)} tokens", f"at most {limits.max_logit_bias} (--server.max-logit-bias)")
    checked = {}
    for key, value in bias.items():
        token_id = _token_id(key)
        if token_id is None or not 0 <= token_id < card.vocab_size:
            allowed = f"a token id from 0 to {card.vocab_size - 1} (the vocabulary has {card.vocab_size})"
            _refuse("logit_bias", f"the key {_shown(key)}", allowed)
        _check_number("logit_bias", value, -100, 100, where=f" for token {token_id}")
        checked[token_id] = float(value)
    return checked


def _token_id(key: Any) -> int | None:
    """JSON keys are strings; "12" is as good as 12."""
    if isinstance(key, int) and not isinstance(key, bool):
        return key
    if isinstance(key, str) and len(key) <= 12 and key.isascii() and key.isdigit():
        return int(key)
    return None


def _check_number(param: str, value: Any, low: float, high: float, *, where: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse(param, _shown(value) + where, "a number")
    if not low <= value <= high:  # NaN is in no range
        _refuse(param, _shown(value) + where, f"a number from {low:g} to {high:g}")


def _check_integer(param: str, value: Any, low: int, high: int | None, *, hint: str = "") -> None:
    ends = f"{low} or more" if high is None else f"from {low} to {high}"
    suffix = f" ({hint})" if hint else ""
    if isinstance(value, bool) or not isinstance(value, int):
        _refuse(param, _shown(value), f"a whole number, {ends}{suffix}")
    if value < low or (high is not None and value > high):
        _refuse(param, _shown(value), f"a whole number, {ends}{suffix}")


def _refuse(param: str, found: str, allowed: str) -> NoReturn:
    raise RequestError(f"{param} must be {allowed}, found {found}", param=param.partition("[")[0])


def _shown(value: Any) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 10**40 else "a number of more than 40 digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
