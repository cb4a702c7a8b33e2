"""The backend: rope, KV write and attention of one layer, in plain PyTorch.

Letters: T tokens of the step, B rows, Q queries of each, S keys of each, H query heads, G kv heads,
R query heads of one kv head, K head width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from infer_api.attention import AttentionLayer
from infer_api.specs import AttentionSite, AttentionSpec, KVGroup, KVLayout, KVLimits, KVSpec, Reason
from infer_api.steps import SeqBatch
from infer_attn_torch.buckets import Run
from infer_attn_torch.cache import write_entries
from infer_attn_torch.options import TorchAttentionOptions
from infer_attn_torch.plan import Gather, StepMeta

__all__ = ["TorchAttention"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
MIB = 1024 * 1024


class TorchAttention:
    """Reference backend. Prompts without a cached prefix go through the causal kernel; all else is gathered from
    the cache in buckets of similar length and answered with one masked call each."""

    def __init__(self, options: TorchAttentionOptions) -> None:
        self._options = options

    def check(self, site: AttentionSite) -> Reason | None:
        """None when the backend serves `site`, else why it does not."""
        if site.dtype not in DTYPES:
            return Reason(f"activations of type {site.dtype} are not supported (only {', '.join(DTYPES)})")
        if site.kv_dtype != site.dtype:
            return Reason(f"a {site.kv_dtype} cache beside {site.dtype} activations is not supported")
        if site.spec.sinks:
            return Reason("attention sinks are not supported")
        if site.spec.window is not None and not site.spec.causal:
            return Reason("a sliding window in both directions is not supported")
        return None

    def layout(self, spec: KVSpec, block_tokens: int, dtype: str) -> KVLayout:
        """A block of each tensor is [block_tokens, heads, width]."""
        shapes = {tensor.name: (block_tokens, tensor.heads, tensor.width) for tensor in spec.tensors}
        num_values = sum(tensor.heads * tensor.width for tensor in spec.tensors) * block_tokens
        return KVLayout(shapes=shapes, dtype=dtype, bytes_per_block=num_values * DTYPES[dtype].itemsize)

    def static_meta(self, group: KVGroup, limits: KVLimits, device: torch.device) -> StepMeta:
        """State of one group. Scratch memory grows to the largest bucket seen, at most about `gather_mib`."""
        token_bytes = max((t.heads * t.width * torch.float32.itemsize for t in group.spec.tensors), default=1)
        return StepMeta(
            block_tokens=group.block_tokens,
            max_keys=max(1, self._options.gather_mib * MIB // token_bytes),
            query_chunk=self._options.query_chunk,
        )

    def plan(self, meta: StepMeta, batch: SeqBatch) -> None:
        """Take in one step; masks and indexes are made when the first layer asks for them."""
        meta.start(batch)

    def attend(self, layer: AttentionLayer, q: Tensor, k: Tensor, v: Tensor, meta: StepMeta, out: Tensor) -> Tensor:
        """Rotate q [T, H, K] and k, write k and v [T, G, K] into the cache, fill `out` [T, H, K] and return it.

        Tokens beyond the planned rows (padding) are left as they are.
        """
        if layer.rope is not None:
            angles = meta.angles(layer.rope)
            q, k = angles.turn(q), angles.turn(k)
        if layer.kv:
            write_entries(layer.kv["k"], meta.batch.slot_mapping_T, k)
            write_entries(layer.kv["v"], meta.batch.slot_mapping_T, v)
        work = meta.work(layer.spec, q.dtype)
        for run in work.fresh:
            _attend_fresh(run, q, k, v, layer.spec, out)
        for gather in work.gathers:
            k_BSGK = meta.scratch.take_entries("k", layer.kv["k"], gather.entries_BS)
            v_BSGK = meta.scratch.take_entries("v", layer.kv["v"], gather.entries_BS)
            _attend_gathered(gather, q, k_BSGK, v_BSGK, layer.spec, out)
        return out


def _attend_fresh(run: Run, q_THK: Tensor, k_TGK: Tensor, v_TGK: Tensor, spec: AttentionSpec, out_THK: Tensor) -> None:
    """Rows of equal length that see nothing but their own new tokens."""
    stretch = slice(run.start, run.start + run.num_rows * run.num_tokens)
    q_BQHK, k_BSGK, v_BSGK = (x[stretch].unflatten(0, (run.num_rows, run.num_tokens)) for x in (q_THK, k_TGK, v_TGK))
    if spec.softcap is None:
        context_BQHK = _fused(q_BQHK, k_BSGK, v_BSGK, spec, causal=spec.causal)
    else:
        context_BQHK = _capped(q_BQHK, k_BSGK, v_BSGK, spec, None)
    out_THK[stretch] = context_BQHK.flatten(0, 1)


def _attend_gathered(
    gather: Gather, q_THK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, spec: AttentionSpec, out_THK: Tensor
) -> None:
    q_BQHK = q_THK[gather.tokens].unflatten(0, (gather.num_rows, gather.num_queries))
    attend = _pick(spec, gather.num_queries)
    out_THK[gather.tokens] = attend(q_BQHK, k_BSGK, v_BSGK, spec, gather.mask_B1QS).flatten(0, 1)


def _pick(spec: AttentionSpec, num_queries: int) -> Callable[[Tensor, Tensor, Tensor, AttentionSpec, Tensor], Tensor]:
    if spec.softcap is not None:
        return _capped
    return _fused if num_queries > 1 else _single


def _fused(
    q_BQHK: Tensor,
    k_BSGK: Tensor,
    v_BSGK: Tensor,
    spec: AttentionSpec,
    mask_B1QS: Tensor | None = None,
    *,
    causal: bool = False,
) -> Tensor:
    """[B, Q, H, K] through torch's kernel. On CPU its own grouping of heads is as fast as copies of k and v."""
    context_BHQK = F.scaled_dot_product_attention(
        q_BQHK.transpose(1, 2),
        k_BSGK.transpose(1, 2),
        v_BSGK.transpose(1, 2),
        attn_mask=mask_B1QS,
        is_causal=causal,
        scale=spec.scale,
        enable_gqa=spec.num_heads != spec.num_kv_heads,
    )
    return context_BHQK.transpose(1, 2)


def _single(q_B1HK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, spec: AttentionSpec, mask_B11S: Tensor) -> Tensor:
    """One query a row: the heads that share keys take the place of its queries, so keys are read once."""
    q_BGRK = q_B1HK.unflatten(2, (k_BSGK.shape[2], -1))[:, 0]
    context_BGRK = F.scaled_dot_product_attention(
        q_BGRK, k_BSGK.transpose(1, 2), v_BSGK.transpose(1, 2), attn_mask=mask_B11S, scale=spec.scale
    )
    return context_BGRK.flatten(1, 2)[:, None]


def _capped(q_BQHK: Tensor, k_BSGK: Tensor, v_BSGK: Tensor, spec: AttentionSpec, mask_B1QS: Tensor | None) -> Tensor:
    """Scores bounded by a tanh, which torch's kernel has no way to say; computed in float32."""
    assert spec.softcap is not None
    q_BGRQK = q_BQHK.unflatten(2, (k_BSGK.shape[2], -1)).permute(0, 2, 3, 1, 4).float()
    k_BG1KS = k_BSGK.permute(0, 2, 3, 1)[:, :, None].float()
    v_BG1SK = v_BSGK.permute(0, 2, 1, 3)[:, :, None].float()
    score_BGRQS = torch.tanh(q_BGRQK @ k_BG1KS * (spec.scale / spec.softcap)) * spec.softcap
    if mask_B1QS is not None:
        score_BGRQS = score_BGRQS + mask_B1QS[:, :, None]
    context_BGRQK = score_BGRQS.softmax(dim=-1) @ v_BG1SK
    return context_BGRQK.permute(0, 3, 1, 2, 4).flatten(2, 3).to(q_BQHK.dtype)
