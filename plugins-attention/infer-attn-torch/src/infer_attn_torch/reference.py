"""Attention over one sequence, written to be read. The backend is tested against it.

Letters: T new tokens, S tokens of the sequence (the new ones last), H query heads, G kv heads, K head width.
"""

from __future__ import annotations

import torch
from torch import Tensor

from infer_api.specs import AttentionSpec

__all__ = ["attend_reference"]


def attend_reference(q_THK: Tensor, k_SGK: Tensor, v_SGK: Tensor, spec: AttentionSpec) -> Tensor:
    """Context vectors [T, H, K] of the last T tokens of a sequence whose keys and values (after rope) are all given."""
    (num_new, num_heads, _), num_all = q_THK.shape, len(k_SGK)
    k_SHK = k_SGK.repeat_interleave(num_heads // k_SGK.shape[1], dim=1)
    v_SHK = v_SGK.repeat_interleave(num_heads // v_SGK.shape[1], dim=1)
    score_HTS = torch.einsum("thk,shk->hts", q_THK, k_SHK) * spec.scale
    if spec.softcap is not None:
        score_HTS = spec.softcap * torch.tanh(score_HTS / spec.softcap)
    if spec.causal:
        key_S, query_T1 = torch.arange(num_all), torch.arange(num_all - num_new, num_all)[:, None]
        unseen_TS = key_S > query_T1
        if spec.window is not None:
            unseen_TS = unseen_TS | (key_S <= query_T1 - spec.window)
        score_HTS = score_HTS.masked_fill(unseen_TS, float("-inf"))
    return torch.einsum("hts,shk->thk", score_HTS.softmax(dim=-1), v_SHK)
