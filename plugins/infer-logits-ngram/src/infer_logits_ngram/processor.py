"""Forbids tokens that would complete an n-gram for the second time. Letters: V width of the output layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from infer_api.processors import ProcessorContext, RowProcessor
from infer_logits_ngram.parameters import NoRepeatNgramParameters

__all__ = ["NoRepeatNgram"]


class NoRepeatNgram:
    """The plugin; it has no state and no options of its own."""

    def __init__(self, options: Any) -> None: ...

    def row(self, parameters: NoRepeatNgramParameters, num_prompt: int, context: ProcessorContext) -> RowProcessor:
        """Prompt and answer count alike."""
        return _Row(parameters, context.device)


class _Row:
    """An index of the n-grams so far: their first n - 1 tokens → the last one → where the n-gram last began.

    It grows with the text, so a token costs the same however long that is.
    """

    def __init__(self, parameters: NoRepeatNgramParameters, device: torch.device) -> None:
        self._size = parameters.size
        self._window = parameters.window
        self._device = device
        self._forget()

    def _forget(self) -> None:
        self._num_indexed = 0
        self._followers: dict[tuple[int, ...], dict[int, int]] = {}

    def __call__(self, scores_V: Tensor, token_ids: Sequence[int]) -> None:
        if len(token_ids) < self._num_indexed:  # another history than before
            self._forget()
        self._index(token_ids)
        banned = self._banned(token_ids)
        if banned:
            scores_V.index_fill_(0, torch.tensor(banned, dtype=torch.int64, device=self._device), float("-inf"))

    def _index(self, token_ids: Sequence[int]) -> None:
        """Take in the n-grams that end in tokens which are new."""
        before = self._size - 1
        for last in range(max(self._num_indexed, before), len(token_ids)):
            followers = self._followers.setdefault(tuple(token_ids[last - before : last]), {})
            followers[token_ids[last]] = last - before
        self._num_indexed = len(token_ids)

    def _banned(self, token_ids: Sequence[int]) -> list[int]:
        """What followed the last n - 1 tokens before, within the window."""
        length, before = len(token_ids), self._size - 1
        followers = self._followers.get(tuple(token_ids[length - before :])) if length >= before else None
        if not followers:
            return []
        if self._window is not None:
            for token_id in [each for each, first in followers.items() if first < length - self._window]:
                del followers[token_id]
        return list(followers)
