"""A request while the engine works on it."""

from __future__ import annotations

import time

from infer.kv.prefix import chain
from infer_api.requests import EngineRequest
from infer_api.schedulers import SequenceView

__all__ = ["Sequence"]


class Sequence:
    """Host state of one request.

        0 ……… num_prompt ……… len(token_ids) …… length ……… target + 1
        |  prompt   |  generated    | drawn in steps |
        |           |  and known    | not retired    |
        0 ………………… num_planned                        KV written, or planned to be, up to here

    `epoch` grows with every preemption: results of steps planned in an earlier epoch are dropped.
    `blocks` holds one list of block ids per KV group; entries before a window are the null block.
    `keys` are those of its complete blocks, as far as anybody asked; `num_published` of its blocks can be found.
    """

    __slots__ = (
        "arrival",
        "awaited",
        "block_floor",
        "blocks",
        "capacity",
        "end_ids",
        "epoch",
        "is_finished",
        "is_told",
        "keys",
        "last_step",
        "length",
        "num_cached",
        "num_computed",
        "num_planned",
        "num_preemptions",
        "num_prompt",
        "num_published",
        "num_scored",
        "queued_at",
        "queued_s",
        "rank",
        "request",
        "root",
        "scores_only",
        "slot",
        "target",
        "token_ids",
    )

    def __init__(self, request: EngineRequest, num_groups: int, max_model_len: int, root: bytes | None = None) -> None:
        self.request = request
        self.token_ids = list(request.prompt_ids)
        self.num_prompt = self.length = len(request.prompt_ids)
        # A set: a request may name most of the vocabulary, and each token is looked up.
        self.end_ids = frozenset(request.sampling.stop_token_ids) | (
            frozenset() if request.sampling.ignore_eos else frozenset(request.eos_ids)
        )
        limit = request.sampling.max_tokens
        self.scores_only = limit == 0
        longest = max_model_len if limit is None else min(max_model_len, self.num_prompt + limit)
        # The last token that is drawn needs no KV; a prompt that is only scored needs all of its own.
        self.target = self.num_prompt if self.scores_only else longest - 1
        self.root = root
        self.keys: list[bytes] = []
        self.arrival = 0
        self.rank: tuple[float, ...] = ()
        self.epoch = self.num_preemptions = self.num_cached = self.num_scored = 0
        self.last_step = -1
        self.is_finished = self.is_told = False
        self.queued_at = time.monotonic()
        self.queued_s: float | None = None
        self.awaited: list[bytes] = []
        self._start_over(num_groups)

    def _start_over(self, num_groups: int) -> None:
        self.num_planned = self.num_computed = self.num_published = self.capacity = 0
        self.length = len(self.token_ids)
        self.slot = -1
        self.blocks: list[list[int]] = [[] for _ in range(num_groups)]
        self.block_floor = [0] * num_groups

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def num_blocks(self) -> int:
        """Blocks that it holds, over all groups."""
        return sum(map(len, self.blocks)) - sum(self.block_floor)

    @property
    def todo(self) -> int:
        """Tokens whose KV is to be computed before the next one can be drawn; 0 when no further step is wanted."""
        return (self.length if self.length < self.target else self.target) - self.num_planned

    def reset(self) -> None:
        """Forget what was computed, keep what was generated: the row will be recomputed from its tokens."""
        self.epoch += 1
        self.num_preemptions += 1
        self._start_over(len(self.blocks))

    def keys_of(self, num_blocks: int, block_tokens: int) -> list[bytes]:
        """Keys of the first `num_blocks` blocks, all of whose tokens are known; none without prefix caching."""
        if self.root is None:
            return []
        while len(self.keys) < num_blocks:
            start = len(self.keys) * block_tokens
            parent = self.keys[-1] if self.keys else self.root
            self.keys.append(chain(parent, self.token_ids[start : start + block_tokens], self.request.media, start))
        return self.keys[:num_blocks]

    def view(self) -> SequenceView:
        return SequenceView(
            arrival=self.arrival,
            priority=self.request.priority,
            num_tokens=self.length,
            num_generated=self.num_generated,
            num_computed=self.num_planned,
            remaining=self.todo,
            num_preemptions=self.num_preemptions,
            num_blocks=self.num_blocks,
        )
