"""The request table: one row per live request, on the device.

Letters: S slots, L longest sequence, N blocks of the longest sequence, B rows of a step, T its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from infer_api.platforms import Platform
from infer_api.specs import KVGroup, KVLimits
from infer_api.steps import AdmittedRow, BlockGrant, PlannedRow, SeqBatch

__all__ = ["Prepared", "RequestTable"]


@dataclass(frozen=True)
class Prepared:
    """One step's inputs: token ids [T], positions [T], the last token of each sampling row in T, and its slot."""

    ids_T: Tensor
    positions_T: Tensor
    batches: tuple[SeqBatch, ...]
    sample_at_R: Tensor
    sample_slots_R: Tensor
    sample_slots: tuple[int, ...]


class RequestTable:
    """Tokens, computed length and block tables of every slot.

        tokens_SL[s]   | prompt … generated … | drawn last | unused
        computed_S[s]  ───────────────────────^ KV is written up to here; the next step starts here

    A step reads its tokens from the table, so a plan needs no token that an earlier step still has to draw.
    """

    def __init__(self, platform: Platform, groups: Sequence[KVGroup], limits: KVLimits, block_tokens: int) -> None:
        num_entries = -(-limits.max_seq_tokens // block_tokens)
        # One token more than the longest sequence: the last step of a row may still draw one.
        self.tokens_SL = platform.static((limits.max_rows, limits.max_seq_tokens + 1), torch.int64)
        self.computed_S = platform.static((limits.max_rows,), torch.int64)
        self.tables = [platform.static((limits.max_rows, num_entries), torch.int64) for _ in groups]
        self._block_tokens = block_tokens
        self._device = self.computed_S.device

    def admit(self, row: AdmittedRow) -> None:
        """Fill the row at `row.slot`; its block tables are granted with the step."""
        count = len(row.token_ids)
        self.tokens_SL[row.slot, :count] = torch.tensor(row.token_ids, dtype=torch.int64)
        self.computed_S[row.slot] = row.num_computed
        for table in self.tables:
            table[row.slot].zero_()

    def grant(self, grant: BlockGrant) -> None:
        end = grant.first + len(grant.block_ids)
        self.tables[grant.group][grant.slot, grant.first : end] = torch.tensor(grant.block_ids, dtype=torch.int64)

    def prepare(self, rows: Sequence[PlannedRow]) -> Prepared:
        """Derive a step's inputs from the table, and move the computed lengths on."""
        lens = [row.num_tokens for row in rows]
        slots_B = self._tensor([row.slot for row in rows])
        lens_B = self._tensor(lens)
        start_B1 = torch.zeros(len(rows) + 1, dtype=torch.int64, device=self._device)
        torch.cumsum(lens_B, 0, out=start_B1[1:])
        base_B = self.computed_S[slots_B]
        if len(rows) == sum(lens):
            row_T, positions_T = torch.arange(len(rows), device=self._device), base_B
        else:
            row_T = torch.repeat_interleave(lens_B, output_size=sum(lens))
            positions_T = base_B[row_T] + torch.arange(sum(lens), device=self._device) - start_B1[row_T]
        seq_lens_B = base_B + lens_B
        self.computed_S[slots_B] = seq_lens_B
        sampling = [index for index, row in enumerate(rows) if row.samples]
        at_R = self._tensor(sampling)
        return Prepared(
            ids_T=self.tokens_SL[slots_B[row_T], positions_T],
            positions_T=positions_T,
            batches=self._batches(rows, slots_B, row_T, positions_T, start_B1, seq_lens_B),
            sample_at_R=start_B1[at_R + 1] - 1,
            sample_slots_R=slots_B[at_R],
            sample_slots=tuple(rows[index].slot for index in sampling),
        )

    def write_back(self, slots_R: Tensor, token_ids_R: Tensor) -> None:
        """Append each row's new token behind what is computed."""
        self.tokens_SL[slots_R, self.computed_S[slots_R]] = token_ids_R

    def _batches(
        self,
        rows: Sequence[PlannedRow],
        slots_B: Tensor,
        row_T: Tensor,
        positions_T: Tensor,
        start_B1: Tensor,
        seq_lens_B: Tensor,
    ) -> tuple[SeqBatch, ...]:
        """The step as each group sees it: they differ in block tables only."""
        lengths, query_lens = tuple(row.length for row in rows), tuple(row.num_tokens for row in rows)
        num_entries, num_decodes = -(-max(lengths) // self._block_tokens), query_lens.count(1)
        block_T, offset_T = positions_T // self._block_tokens, positions_T % self._block_tokens
        tables_BN = [table[slots_B, :num_entries] for table in self.tables]
        return tuple(
            SeqBatch(
                positions_T=positions_T,
                slot_mapping_T=table_BN[row_T, block_T] * self._block_tokens + offset_T,
                block_table_BN=table_BN,
                query_start_B1=start_B1,
                seq_lens_B=seq_lens_B,
                query_lens=query_lens,
                seq_lens=lengths,
                num_decodes=num_decodes,
            )
            for table_BN in tables_BN
        )

    def _tensor(self, values: list[int]) -> Tensor:
        return torch.tensor(values, dtype=torch.int64).to(self._device, non_blocking=True)
