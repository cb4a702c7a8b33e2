"""One step of the engine, as told to a worker, and what comes back.

The worker keeps a request table: a row (`slot`) per live request with its tokens, computed length, block
tables and sampling state, on the device. A plan therefore names slots and counts, never tokens that an
earlier step still has to produce. Letters: T tokens of the step, B rows, N blocks of the longest row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from infer_api.requests import RowError, SamplingParams, TokenLogprobs

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "AdmittedRow",
    "BlockGrant",
    "PlannedRow",
    "PromptScores",
    "SampleInputs",
    "SampledRow",
    "SeqBatch",
    "StepPlan",
    "StepResult",
]


class AdmittedRow(msgspec.Struct, frozen=True, array_like=True):
    """A request enters the table at `slot`.

    `token_ids` are prompt and, after a preemption, what was generated so far; `num_prompt` of them are the
    prompt, `num_computed` of them have their KV already. `vocab_size` bounds the ids that may be sampled;
    `stop_ids` are impossible while fewer than `sampling.min_tokens` tokens are generated.
    """

    slot: int
    token_ids: list[int]
    num_prompt: int
    num_computed: int
    sampling: SamplingParams
    vocab_size: int
    stop_ids: tuple[int, ...] = ()


class BlockGrant(msgspec.Struct, frozen=True, array_like=True):
    """Blocks for one row: entries `first`, `first + 1`, … of its block table in `group`."""

    slot: int
    group: int
    first: int
    block_ids: list[int]


class PlannedRow(msgspec.Struct, frozen=True, array_like=True):
    """`num_tokens` more tokens of the row at `slot` (with drafts: an upper bound), of which `num_drafts` are drafts.

    `length` is the row's length in tokens after the step, as an upper bound. `samples`: the step reaches
    the row's last known token, so a next one is drawn.
    """

    slot: int
    num_tokens: int
    length: int
    samples: bool
    num_drafts: int = 0


class StepPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a worker needs for one step. Rows with a single token come first."""

    step_id: int
    rows: list[PlannedRow]
    admitted: list[AdmittedRow] = []
    granted: list[BlockGrant] = []

    @property
    def num_tokens(self) -> int:
        return sum(row.num_tokens for row in self.rows)


class SampleInputs(msgspec.Struct, frozen=True, kw_only=True):
    """What only the second call of a step may wait for; `step_id` names the forward call it belongs to."""

    step_id: int


class SampledRow(msgspec.Struct, frozen=True, array_like=True):
    """Tokens that `slot` accepted in this step (one, or more with drafts), or why the row failed."""

    slot: int
    token_ids: list[int]
    logprobs: list[TokenLogprobs] | None = None
    error: RowError | None = None


class PromptScores(msgspec.Struct, frozen=True, array_like=True):
    """Scores of prompt tokens `first`, `first + 1`, … of the row at `slot`; token 0 has none. Or why it failed."""

    slot: int
    first: int
    entries: list[TokenLogprobs]
    error: RowError | None = None


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """Outcome of a step, in the order of the plan's sampling rows; `prompts` for rows that asked for prompt logprobs.

    Such a row's chunk of prompt tokens [a, b) is scored for tokens a + 1 … b, as far as they belong to the prompt.
    """

    step_id: int
    rows: list[SampledRow]
    prompts: list[PromptScores] = []


@dataclass(frozen=True)
class SeqBatch:
    """One step as an attention backend sees it, for one KV group.

    Device tensors (int64): `positions_T`; `slot_mapping_T` (block · block_tokens + offset, where token t's
    KV goes); `block_table_BN` (entries past a row's length, or before its window, are the null block 0);
    `query_start_B1` (B + 1 offsets into T); `seq_lens_B` (tokens after this step).
    Host integers: `query_lens` and `seq_lens` per row, the latter upper bounds where drafts are in play.
    The first `num_decodes` rows have one token each.
    """

    positions_T: Tensor
    slot_mapping_T: Tensor
    block_table_BN: Tensor
    query_start_B1: Tensor
    seq_lens_B: Tensor
    query_lens: tuple[int, ...]
    seq_lens: tuple[int, ...]
    num_decodes: int

    @property
    def num_rows(self) -> int:
        return len(self.query_lens)
