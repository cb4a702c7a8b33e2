"""Words that must not appear in generated text, in whatever tokens they are spelled.

Text is a string of bytes. Of each word we know how much of it the text ends with (Knuth, Morris and Pratt, 1977), and
a token is banned when the word would be complete within it:

    word    b l a c k _ c a t
    text    … a b l a              state 3; banned are the tokens that begin with "ck cat",
                                   and those that contain the whole word, whatever the state

A state's own borders (shorter beginnings of the word that the text also ends with) ban in the same way. Letters:
V width of the output layer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

__all__ = ["BadWords", "Vocabulary", "Word"]

MAX_CACHED_IDS = 4_000_000
"""Banned ids that are kept for words seen before, all words together; a word's own state counts as `Word.size` says."""


class Vocabulary:
    """The bytes of every token, sorted. Tokens without bytes (special ones) have no text, and are never banned."""

    def __init__(self, tokens: Sequence[bytes], width: int, device: torch.device) -> None:
        self.tokens = list(tokens[:width])
        order = sorted((each for each in range(len(self.tokens)) if self.tokens[each]), key=self.tokens.__getitem__)
        self._sorted = [self.tokens[each] for each in order]
        self._order = torch.tensor(order, dtype=torch.int64, device=device)
        self._longest = max(map(len, self._sorted), default=0)
        self._joined = np.frombuffer(b"".join(self._sorted), dtype=np.uint8)
        self._ends = np.cumsum([len(each) for each in self._sorted], dtype=np.int64)
        self._counts = np.bincount(self._joined, minlength=256)
        self._words: OrderedDict[bytes, Word] = OrderedDict()
        self._num_cached_ids = 0

    def word(self, text: bytes) -> Word:
        """The automaton of one word, not empty; those used lately are kept."""
        if text in self._words:
            self._words.move_to_end(text)
            return self._words[text]
        word = self._words[text] = Word(text, self)
        self._num_cached_ids += word.size
        while self._num_cached_ids > MAX_CACHED_IDS and len(self._words) > 1:
            self._num_cached_ids -= self._words.popitem(last=False)[1].size
        return word

    def containing(self, text: bytes) -> Tensor:
        """Ids, int64 on the device, of the tokens in which `text` lies as a whole."""
        # One look at all bytes for the rarest of the word, then fewer and fewer places.
        offsets = sorted(range(len(text)), key=lambda at: self._counts[text[at]])
        found = np.flatnonzero(self._joined == text[offsets[0]]) - offsets[0]
        found = found[(found >= 0) & (found + len(text) <= len(self._joined))]
        for offset in offsets[1:]:
            found = found[self._joined[found + offset] == text[offset]]
        owner = np.searchsorted(self._ends, found, side="right")
        whole = found + len(text) <= self._ends[owner]
        places = torch.from_numpy(np.unique(owner[whole]))
        return self._order[places.to(self._order.device)]

    def beginning_with(self, text: bytes) -> Tensor:
        """Ids, int64 on the device, of the tokens that begin with `text`."""
        if len(text) > self._longest:
            return self._order[:0]
        first = bisect_left(self._sorted, text)
        end = bisect_right(self._sorted, text, lo=first, key=lambda token: token[: len(text)])
        return self._order[first:end]


class Word:
    """One word's automaton. A state is the length of the longest beginning of the word that the text ends with."""

    def __init__(self, text: bytes, vocabulary: Vocabulary) -> None:
        self.text = text
        self.contained = vocabulary.containing(text)
        self._vocabulary = vocabulary
        self._borders = _borders(text)
        self._endings: dict[int, Tensor] = {}
        self._completing: dict[int, Tensor] = {}

    @property
    def size(self) -> int:
        """What it holds, counted in ids: a word that no token contains takes room for its automaton, too."""
        return len(self.contained) + 64 + 8 * len(self.text)

    def advance(self, state: int, data: bytes) -> int:
        """The state after `data`, from `state`."""
        text, borders = self.text, self._borders
        if not state and text[0] not in data:
            return 0
        for byte in data:
            while state and (state == len(text) or text[state] != byte):
                state = borders[state]
            state += text[state] == byte
        return state

    def completing(self, state: int) -> Tensor:
        """Ids of the tokens that would complete what the text of `state` has begun."""
        if state not in self._completing:
            parts, border = [], state
            while border:
                parts.append(self._ending(border))
                border = self._borders[border]
            self._completing[state] = torch.cat(parts) if parts else self.contained[:0]
        return self._completing[state]

    def _ending(self, known: int) -> Tensor:
        if known not in self._endings:
            self._endings[known] = self._vocabulary.beginning_with(self.text[known:])
        return self._endings[known]


class BadWords:
    """The words of one request, and how far its text has got into each."""

    def __init__(self, words: Iterable[str], vocabulary: Vocabulary) -> None:
        # A lone surrogate, which JSON can spell, is no text of any token.
        texts = dict.fromkeys(word.encode("utf-8", "surrogatepass") for word in words)
        self._words = [vocabulary.word(text) for text in texts]
        self._states = [0] * len(self._words)
        self._tokens = vocabulary.tokens
        self._always = torch.unique(torch.cat([word.contained for word in self._words]))

    def take(self, token_id: int) -> None:
        """Move on by one generated token."""
        data = self._tokens[token_id] if token_id < len(self._tokens) else b""
        if data:
            self._states = [word.advance(state, data) for word, state in zip(self._words, self._states, strict=True)]

    def forbid(self, scores_V: Tensor) -> None:
        """Make every token impossible with which a word would be complete. In place."""
        scores_V.index_fill_(0, self._always, float("-inf"))
        for word, state in zip(self._words, self._states, strict=True):
            if state and len(ids := word.completing(state)):
                scores_V.index_fill_(0, ids, float("-inf"))


def _borders(text: bytes) -> list[int]:
    """At k: how long the longest other beginning of `text` is that the first k bytes end with."""
    borders = [0, 0]
    for byte in text[1:]:
        border = borders[-1]
        while border and text[border] != byte:
            border = borders[border]
        borders.append(border + (text[border] == byte))
    return borders
