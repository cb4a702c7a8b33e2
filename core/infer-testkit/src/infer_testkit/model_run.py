"""Runs a model family through core's loading and layers, with a plain attention backend, step by step.

What the runner does for a model, without an engine: one block table for all KV groups, all sequences named.

Letters: T tokens of the step, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from infer.kv.groups import form_groups
from infer.model.factory import CoreLayerFactory
from infer.model.load import build_and_load
from infer.ops.table import OpTable
from infer_api.loaders import Checkpoint
from infer_api.models import ModelFamily
from infer_api.quantization import QuantMethod
from infer_api.specs import KVLimits
from infer_api.steps import SeqBatch
from infer_testkit.fakes.attention import PlainAttention

__all__ = ["ModelRun"]

BLOCK_TOKENS = 16


class ModelRun:
    """A loaded model with a cache for `max_rows` sequences of up to `max_seq_tokens` tokens each."""

    def __init__(
        self,
        family: ModelFamily,
        checkpoint: Checkpoint,
        quant: QuantMethod,
        *,
        max_rows: int = 4,
        max_seq_tokens: int = 256,
    ) -> None:
        self.facts = family.facts(checkpoint.config())
        cpu = torch.device("cpu")
        factory = CoreLayerFactory(quant, OpTable([], "cpu", "float32"), cpu, torch.float32, max_seq_tokens)
        self.model = build_and_load(family, self.facts, checkpoint, factory)
        self._lengths: dict[str, int] = {}
        self._blocks_per_row = -(-max_seq_tokens // BLOCK_TOKENS)
        self._backend = factory.step.attention = PlainAttention()
        self._metas: list[Any] = []
        limits = KVLimits(max_rows, max_rows * max_seq_tokens, max_seq_tokens)
        for group in form_groups(factory.kv_specs, BLOCK_TOKENS):
            meta = self._backend.static_meta(group, limits, cpu)
            self._metas.append(meta)
            shapes = self._backend.layout(group.spec, BLOCK_TOKENS, "float32").shapes
            num_blocks = 1 + max_rows * self._blocks_per_row
            for layer in group.layers:
                factory.step.metas[layer] = meta
                cache = {name: torch.full((num_blocks, *shape), float("nan")) for name, shape in shapes.items()}
                factory.attention_layers[layer].kv.update(cache)

    @torch.inference_mode()
    def step(self, new_ids: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
        """Scores [n, V] of every new token of each named sequence; a new name starts a sequence."""
        rows = sorted(new_ids.items(), key=lambda item: len(item[1]) != 1)
        batch = self._batch([(name, len(ids)) for name, ids in rows])
        for meta in self._metas:
            self._backend.plan(meta, batch)
        ids_T = torch.tensor([token_id for _, ids in rows for token_id in ids])
        h_TD = self.model.forward(self.model.embed(ids_T), batch.positions_T)
        logits = self.model.logits(h_TD).split(list(batch.query_lens))
        return {name: scores for (name, _), scores in zip(rows, logits, strict=True)}

    def _batch(self, counts: Sequence[tuple[str, int]]) -> SeqBatch:
        positions, slots, tables, lengths = [], [], [], []
        for name, count in counts:
            start = self._lengths.setdefault(name, 0)
            first_block = 1 + list(self._lengths).index(name) * self._blocks_per_row
            position = torch.arange(start, start + count)
            self._lengths[name] = start + count
            positions.append(position)
            slots.append(first_block * BLOCK_TOKENS + position)
            tables.append(torch.arange(first_block, first_block + self._blocks_per_row))
            lengths.append(start + count)
        query_lens = tuple(count for _, count in counts)
        return SeqBatch(
            positions_T=torch.cat(positions),
            slot_mapping_T=torch.cat(slots),
            block_table_BN=torch.stack(tables),
            query_start_B1=torch.tensor([0, *query_lens]).cumsum(0),
            seq_lens_B=torch.tensor(lengths),
            query_lens=query_lens,
            seq_lens=tuple(lengths),
            num_decodes=sum(count == 1 for count in query_lens),
        )
