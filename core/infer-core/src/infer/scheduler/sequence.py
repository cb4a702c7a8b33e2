"""A request while the engine works on it."""

from __future__ import annotations

from infer_api.requests import EngineRequest

__all__ = ["Sequence"]


class Sequence:
    """Host state of one request.

        0 ……… num_prompt ……… len(token_ids) …… length
        |  prompt   |  generated    | drawn in steps |
        |           |  and known    | not retired    |
        0 ………………… num_planned                        KV written, or planned to be, up to here

    `epoch` grows with every preemption: results of steps planned in an earlier epoch are dropped.
    `blocks` holds one list of block ids per KV group; entries before a window are the null block.
    """

    __slots__ = (
        "block_floor",
        "blocks",
        "epoch",
        "is_finished",
        "last_step",
        "num_computed",
        "num_in_flight",
        "num_planned",
        "num_prompt",
        "request",
        "slot",
        "token_ids",
    )

    def __init__(self, request: EngineRequest, num_groups: int) -> None:
        self.request = request
        self.token_ids = list(request.prompt_ids)
        self.num_prompt = len(request.prompt_ids)
        self.num_planned = 0
        self.num_computed = 0
        self.num_in_flight = 0
        self.slot = -1
        self.epoch = 0
        self.last_step = -1
        self.is_finished = False
        self.blocks: list[list[int]] = [[] for _ in range(num_groups)]
        self.block_floor = [0] * num_groups

    @property
    def length(self) -> int:
        """Tokens of the row on the device, those not yet reported included."""
        return len(self.token_ids) + self.num_in_flight

    @property
    def num_generated(self) -> int:
        return len(self.token_ids) - self.num_prompt

    @property
    def remaining(self) -> int:
        """Tokens whose KV has to be computed before the next one can be drawn."""
        return self.length - self.num_planned

    def wants_step(self, max_model_len: int) -> bool:
        """Whether another token may be drawn: false once steps in flight reach the length limits."""
        limit = self.request.sampling.max_tokens
        drawn = self.length - self.num_prompt
        return not self.is_finished and self.length < max_model_len and (limit is None or drawn < limit)

    def reset(self) -> None:
        """Forget what was computed, keep what was generated: the row will be recomputed from its tokens."""
        self.num_planned = self.num_computed = self.num_in_flight = 0
        self.slot = -1
        self.epoch += 1
        self.blocks = [[] for _ in self.blocks]
        self.block_floor = [0] * len(self.block_floor)
