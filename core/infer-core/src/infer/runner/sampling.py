"""Sampling state by slot, and what of it a step's rows need.

Letters: S slots, R rows to sample, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from infer.runner.bad_words import BadWords, Vocabulary
from infer.runner.processors import Processors
from infer_api.platforms import Platform
from infer_api.processors import RowProcessor
from infer_api.requests import GREEDY_BELOW, RowError, SamplingParams
from infer_api.steps import AdmittedRow

__all__ = ["RowSampling", "SamplingTable"]

_NO_VOCABULARY = RowError("bad_words need the texts of the vocabulary, which the worker was not told", "no_vocabulary")


@dataclass
class RowSampling:
    """Host facts of one slot, so that a step looks only at features that its rows use."""

    params: SamplingParams
    vocab_size: int
    num_prompt: int
    is_plain: bool = True
    """Whether scores go to the draw as the model said them."""
    bias_ids: Tensor | None = None
    bias: Tensor | None = None
    stop_ids: Tensor | None = None
    allowed_ids: Tensor | None = None
    counts_V: Tensor | None = None
    """Generated tokens by id, float32; only for rows with penalties."""
    in_prompt_V: Tensor | None = None
    history: list[int] | None = None
    """Prompt and generated tokens; only for rows with bad words or processors."""
    bad_words: BadWords | None = None
    processors: tuple[tuple[str, RowProcessor], ...] = ()
    failure: RowError | None = None
    """Why the row cannot be sampled at all, found when it was admitted."""

    @property
    def is_greedy(self) -> bool:
        return self.params.temperature <= GREEDY_BELOW

    @property
    def has_penalties(self) -> bool:
        p = self.params
        return p.presence_penalty != 0.0 or p.frequency_penalty != 0.0 or p.repetition_penalty != 1.0

    def take(self, token_id: int) -> None:
        """Follow one drawn token, in a row with a history."""
        assert self.history is not None
        self.history.append(token_id)
        if self.bad_words is not None:
            self.bad_words.take(token_id)


@dataclass
class SamplingTable:
    """Device columns (temperature, top-k, top-p, min-p, seed) and host facts by slot."""

    platform: Platform
    num_slots: int
    width: int
    """Width of the model's output layer; may exceed the tokenizer's vocabulary."""
    processors: Processors
    rows: dict[int, RowSampling] = field(default_factory=dict)
    scored_slots: set[int] = field(default_factory=set)
    """Slots whose prompts are to be scored."""
    vocabulary: Vocabulary | None = None

    def __post_init__(self) -> None:
        static = self.platform.static
        self.temperature_S = static((self.num_slots,), torch.float32)
        self.top_k_S = static((self.num_slots,), torch.int64)
        self.top_p_S = static((self.num_slots,), torch.float32)
        self.min_p_S = static((self.num_slots,), torch.float32)
        self.seed_S = static((self.num_slots,), torch.int64)
        self.num_prompt_S = static((self.num_slots,), torch.int64)

    def admit(self, row: AdmittedRow) -> None:
        """Fill the slot from the request's parameters and the tokens it has so far."""
        params, slot = row.sampling, row.slot
        self.temperature_S[slot] = max(params.temperature, GREEDY_BELOW)
        self.top_k_S[slot] = params.top_k if 0 < params.top_k < self.width else self.width
        self.top_p_S[slot] = params.top_p
        self.min_p_S[slot] = params.min_p
        self.seed_S[slot] = params.seed or 0
        self.num_prompt_S[slot] = row.num_prompt
        state = RowSampling(params, row.vocab_size or self.width, row.num_prompt)
        if params.logit_bias:
            state.bias_ids = self._ids(params.logit_bias)
            state.bias = torch.tensor(list(params.logit_bias.values()), dtype=torch.float32, device=self._device)
        stop_ids = sorted({each for each in row.stop_ids if each < self.width})  # others have no score to forbid
        if params.min_tokens > 0 and stop_ids:
            state.stop_ids = self._ids(stop_ids)
        if params.allowed_token_ids is not None:
            state.allowed_ids = self._ids(each for each in params.allowed_token_ids if each < self.width)
        if state.has_penalties:
            self._count(state, row)
        if params.bad_words or params.processors:
            self._follow(state, row)
        watched = (state.bias_ids, state.stop_ids, state.allowed_ids, state.counts_V, state.history)
        state.is_plain = all(each is None for each in watched)
        self.rows[slot] = state
        self.scored_slots.discard(slot)
        if params.prompt_logprobs is not None:
            self.scored_slots.add(slot)

    @property
    def _device(self) -> torch.device:
        return self.temperature_S.device

    def _ids(self, ids: Iterable[int]) -> Tensor:
        return torch.tensor(list(ids), dtype=torch.int64, device=self._device)

    def _count(self, state: RowSampling, row: AdmittedRow) -> None:
        tokens = self._ids(row.token_ids)
        prompt, generated = tokens[: row.num_prompt], tokens[row.num_prompt :]
        state.in_prompt_V = torch.zeros(self.width, dtype=torch.bool, device=self._device)
        state.in_prompt_V[prompt] = True
        state.counts_V = torch.bincount(generated, minlength=self.width).to(torch.float32)

    def _follow(self, state: RowSampling, row: AdmittedRow) -> None:
        """State that grows with each token on the host; after a preemption from what was generated before."""
        state.history = list(row.token_ids)
        made = self.processors.rows(state.params.processors, row.num_prompt)
        if isinstance(made, RowError):
            state.failure = made
            return
        state.processors = made
        if not state.params.bad_words:
            return
        if self.vocabulary is None:
            state.failure = _NO_VOCABULARY
            return
        state.bad_words = BadWords(state.params.bad_words, self.vocabulary)
        for token_id in row.token_ids[row.num_prompt :]:
            state.bad_words.take(token_id)

    def record(self, slots: tuple[int, ...], token_ids_R: Tensor) -> None:
        """Count the drawn tokens of rows with penalties."""
        for index, slot in enumerate(slots):
            counts_V = self.rows[slot].counts_V
            if counts_V is not None:
                counts_V[token_ids_R[index]] += 1
