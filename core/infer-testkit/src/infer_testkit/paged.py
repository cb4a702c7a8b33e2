"""Drives an attention backend the way the runner does, over a poisoned cache, beside a reference.

Every block of the cache starts as NaN, the null block included, and so does every output: what a backend
reads but should not shows up. Queries, keys and values are views of one fused tensor, as a fused linear
gives them. Sequences may share the blocks of a common prefix, and finished ones return theirs unwiped.

Letters: T tokens of the step, B rows, N blocks of the longest row, S tokens of one sequence, H query heads,
G kv heads, K head width, C blocks of the pool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from infer_api.attention import AttentionBackend, AttentionLayer
from infer_api.layers import Rotary
from infer_api.specs import AttentionSite, AttentionSpec, KVGroup, KVLimits, KVSpec, KVTensor, Retain
from infer_api.steps import SeqBatch
from infer_testkit import reference

__all__ = ["PagedRun", "StepInputs", "StepOutcome"]


@dataclass
class _Sequence:
    """What the reference knows of one sequence (keys before rope), and the blocks that hold it."""

    k_SGK: Tensor
    v_SGK: Tensor
    block_ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        return len(self.k_SGK)


@dataclass(frozen=True)
class StepOutcome:
    """Results [n, H, K] of each row by its name: the backend's, and the reference's in float64."""

    got: Mapping[str, Tensor]
    expected: Mapping[str, Tensor]


@dataclass(frozen=True)
class StepInputs:
    """New tokens of a step, cut per row: q [n, H, K], k and v [n, G, K]."""

    q: Tensor
    k: Tensor
    v: Tensor
    counts: Sequence[tuple[str, int]]


class PagedRun:
    """A cache of `num_blocks` blocks and the sequences in it, for one attention layer of one backend.

    `gap` makes blocks of the cache non-adjacent in memory, as when layers of different shape share it.
    """

    def __init__(
        self,
        backend: AttentionBackend,
        spec: AttentionSpec,
        rng: torch.Generator,
        *,
        rope: Rotary | None = None,
        block_tokens: int = 16,
        num_blocks: int = 96,
        device: str = "cpu",
        dtype: torch.dtype = torch.float32,
        gap: int = 0,
    ) -> None:
        self.spec, self.rng, self.rope, self.block_tokens = spec, rng, rope, block_tokens
        self.device, self.dtype, self.backend = torch.device(device), dtype, backend
        self.sequences: dict[str, _Sequence] = {}
        tensors = tuple(KVTensor(name, spec.num_kv_heads, spec.head_size) for name in ("k", "v"))
        kv_spec = KVSpec(tensors, retain=Retain(spec.window))
        layout = backend.layout(kv_spec, block_tokens, str(dtype).removeprefix("torch."))
        kv = {name: self._poisoned(num_blocks, shape, gap) for name, shape in layout.shapes.items()}
        self.layer = AttentionLayer("layers.0.attn", spec, rope, kv if spec.causal else {})
        limits = KVLimits(max_rows=64, max_tokens=4096, max_seq_tokens=num_blocks * block_tokens)
        self.meta: Any = backend.static_meta(KVGroup(0, kv_spec, (self.layer.name,), block_tokens), limits, self.device)
        shuffled = torch.randperm(num_blocks - 1, generator=rng) + 1  # never the null block
        self._free: list[int] = shuffled.tolist()

    def site(self) -> AttentionSite:
        """The site that the backend is asked to serve here."""
        name = str(self.dtype).removeprefix("torch.")
        return AttentionSite(self.spec, self.device.type, name, name, self.block_tokens)

    def share_prefix(self, new: str, owner: str, num_blocks: int) -> None:
        """Start sequence `new` with the first `num_blocks` full blocks of `owner`."""
        length, source = num_blocks * self.block_tokens, self.sequences[owner]
        assert length <= source.length, "only full blocks are shared"
        self.sequences[new] = _Sequence(source.k_SGK[:length], source.v_SGK[:length], source.block_ids[:num_blocks])

    def finish(self, name: str) -> None:
        """Forget a sequence; its blocks are the next to be handed out, with whatever is in them."""
        self._free += self.sequences.pop(name).block_ids

    def step(self, counts: Mapping[str, int], *, poisoned: frozenset[str] = frozenset()) -> StepOutcome:
        """Give each named row that many new random tokens (all NaN for `poisoned` rows) and compare."""
        inputs = self.draw_inputs(counts, poisoned)
        batch = self.admit(inputs)
        out_THK = torch.full_like(inputs.q, float("nan"))
        self.backend.plan(self.meta, batch)
        result = self.backend.attend(self.layer, inputs.q, inputs.k, inputs.v, self.meta, out_THK)
        assert result.data_ptr() == out_THK.data_ptr(), "attend must fill and return the `out` that it was given"
        names, lengths = zip(*inputs.counts, strict=True)
        got = dict(zip(names, out_THK.cpu().split(lengths), strict=True))
        q_rows = inputs.q.cpu().split(lengths)
        expected = {name: self._reference(name, q) for (name, _), q in zip(inputs.counts, q_rows, strict=True)}
        return StepOutcome(got, expected)

    def _poisoned(self, num_blocks: int, shape: tuple[int, ...], gap: int) -> Tensor:
        size = torch.Size(shape).numel()
        arena = torch.full((num_blocks, size + gap), float("nan"), dtype=self.dtype, device=self.device)
        return arena[:, :size].view(num_blocks, *shape)

    def draw_inputs(self, counts: Mapping[str, int], poisoned: frozenset[str]) -> StepInputs:
        """Random new tokens for each named row, in the order in which a step takes them."""
        # Rows with a single token come first, as in every plan of the engine.
        rows = sorted(counts.items(), key=lambda item: item[1] != 1)
        heads, groups, size = self.spec.num_heads, self.spec.num_kv_heads, self.spec.head_size
        num_tokens, width = sum(counts.values()), (heads + 2 * groups) * size
        fused = torch.randn(num_tokens, width, generator=self.rng)
        start = 0
        for name, count in rows:
            if name in poisoned:
                fused[start : start + count] = float("nan")
            start += count
        fused = fused.to(self.device, self.dtype)
        q, k, v = fused.split([heads * size, groups * size, groups * size], dim=-1)
        q, k, v = (x.unflatten(-1, (-1, size)) for x in (q, k, v))
        return StepInputs(q, k, v, rows)

    def admit(self, inputs: StepInputs) -> SeqBatch:
        """Append the new tokens to their sequences, take blocks for them, and describe the step."""
        positions: list[Tensor] = []
        slots: list[Tensor] = []
        tables: list[list[int]] = []
        start = 0
        for name, count in inputs.counts:
            row = self._grow(name, inputs.k[start : start + count].cpu(), inputs.v[start : start + count].cpu())
            start += count
            position = torch.arange(row.length - count, row.length)
            table = self._seen_blocks(row, row.length - count)
            positions.append(position)
            slots.append(
                torch.tensor(table)[position // self.block_tokens] * self.block_tokens + position % self.block_tokens
            )
            tables.append(table)
        width = max(len(table) for table in tables) + 2  # the engine's table may be wider than a step needs
        lengths = tuple(self.sequences[name].length for name, _ in inputs.counts)
        query_lens = tuple(count for _, count in inputs.counts)
        return SeqBatch(
            positions_T=torch.cat(positions).to(self.device),
            slot_mapping_T=torch.cat(slots).to(self.device),
            block_table_BN=torch.tensor([table + [0] * (width - len(table)) for table in tables], device=self.device),
            query_start_B1=torch.tensor([0, *query_lens], device=self.device).cumsum(0),
            seq_lens_B=torch.tensor(lengths, device=self.device),
            query_lens=query_lens,
            seq_lens=lengths,
            num_decodes=sum(count == 1 for count in query_lens),
        )

    def _grow(self, name: str, k_TGK: Tensor, v_TGK: Tensor) -> _Sequence:
        row = self.sequences.setdefault(name, _Sequence(k_TGK[:0], v_TGK[:0]))
        row.k_SGK, row.v_SGK = torch.cat((row.k_SGK, k_TGK)), torch.cat((row.v_SGK, v_TGK))
        while len(row.block_ids) * self.block_tokens < row.length:
            row.block_ids.append(self._free.pop())
        return row

    def _seen_blocks(self, row: _Sequence, num_computed: int) -> list[int]:
        """The row's block table; blocks that lie wholly before the window have been given back (null block)."""
        if self.spec.window is None:
            return list(row.block_ids)
        first = max(0, num_computed - self.spec.window + 1) // self.block_tokens
        return [0] * first + row.block_ids[first:]

    def _reference(self, name: str, q_THK: Tensor) -> Tensor:
        row = self.sequences[name]
        position_S = torch.arange(row.length)
        rope = None
        if self.rope is not None:
            rope = reference.RotaryTables(self.rope.spec, self.rope.cos_PR.cpu(), self.rope.sin_PR.cpu())
        q = reference.rotate(q_THK, rope, position_S[-len(q_THK) :])
        k = reference.rotate(row.k_SGK, rope, position_S)
        return reference.attend(q, k, row.v_SGK.double(), self.spec)
