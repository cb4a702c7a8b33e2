from __future__ import annotations

import torch
from torch import Tensor

from infer.runner.table import RequestTable
from infer_api.requests import SamplingParams
from infer_api.specs import KVGroup, KVLimits, KVSpec, KVTensor
from infer_api.steps import AdmittedRow, BlockGrant, PlannedRow

SPEC = KVSpec((KVTensor("k", 1, 4),))


class Memory:
    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        return torch.full(shape, -99, dtype=dtype)  # poisoned: nothing may be read that was not written


def make_table(num_groups: int = 1) -> RequestTable:
    groups = [KVGroup(index, SPEC, ("a",), 4) for index in range(num_groups)]
    return RequestTable(Memory(), groups, KVLimits(4, 64, 32), 4)  # type: ignore[arg-type]


def admit(table: RequestTable, slot: int, tokens: list[int], blocks: list[int], computed: int = 0) -> None:
    table.admit(AdmittedRow(slot, tokens, len(tokens), computed, SamplingParams(), 100))
    table.grant(BlockGrant(slot, 0, 0, blocks))


def test_a_mixed_step_reads_tokens_positions_and_slots_from_the_table() -> None:
    table = make_table()
    admit(table, 2, [10, 11, 12, 13, 14, 15], [7, 3])
    admit(table, 0, [20, 21, 22], [5], computed=2)
    step = table.prepare([PlannedRow(0, 1, 3, True), PlannedRow(2, 5, 5, False)])
    assert step.ids_T.tolist() == [22, 10, 11, 12, 13, 14]
    assert step.positions_T.tolist() == [2, 0, 1, 2, 3, 4]
    batch = step.batches[0]
    assert batch.slot_mapping_T.tolist() == [22, 28, 29, 30, 31, 12]
    assert batch.query_start_B1.tolist() == [0, 1, 6]
    assert batch.seq_lens_B.tolist() == [3, 5]
    assert batch.block_table_BN[1].tolist() == [7, 3]
    assert (batch.query_lens, batch.seq_lens, batch.num_decodes) == ((1, 5), (3, 5), 1)
    assert step.sample_at_R.tolist() == [0]
    assert step.sample_slots == (0,)


def test_a_drawn_token_is_the_input_of_the_next_step() -> None:
    table = make_table()
    admit(table, 1, [4, 5], [2])
    first = table.prepare([PlannedRow(1, 2, 2, True)])
    table.write_back(first.sample_slots_R, torch.tensor([77]))
    second = table.prepare([PlannedRow(1, 1, 3, True)])
    assert second.ids_T.tolist() == [77]
    assert second.positions_T.tolist() == [2]
    assert int(table.computed_S[1]) == 3


def test_an_admitted_row_keeps_nothing_of_the_one_before() -> None:
    table = make_table(num_groups=2)
    admit(table, 3, list(range(9)), [4, 5, 6])
    table.admit(AdmittedRow(3, [1], 1, 0, SamplingParams(), 100))
    assert int(table.computed_S[3]) == 0
    assert all(int(entries[3].abs().sum()) == 0 for entries in table.tables)
