"""The same model in plain torch and float32, on whole sequences, straight from the checkpoint's tensors.

Letters: T tokens of one sequence, D stream width, H query heads, G key heads, K head width, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["reference_logits"]


def reference_logits(config: Mapping[str, Any], tensors: Mapping[str, Tensor], ids_T: Tensor) -> Tensor:
    """Scores [T, V] after each token. `config` is config.json, `tensors` the checkpoint by its own names."""
    eps, head_name = float(config.get("norm_eps", 1e-6)), "tokens" if config.get("tied", True) else "head"
    x_TD = tensors["tokens.weight"].float()[ids_T]
    for index in range(config["num_blocks"]):
        weights = {
            name.removeprefix(f"decoder.{index}."): tensor.float()
            for name, tensor in tensors.items()
            if name.startswith(f"decoder.{index}.")
        }
        h_TD = F.rms_norm(x_TD, x_TD.shape[-1:], weights["norm.weight"], eps)
        added_TD = _attend(config, weights, h_TD) + _think(weights, h_TD)
        x_TD = x_TD + config["residual_scale"] / (index + 1) ** 0.5 * added_TD
    h_TD = F.rms_norm(x_TD, x_TD.shape[-1:], tensors["last_norm.weight"].float(), eps)
    return h_TD @ tensors[f"{head_name}.weight"].float().T


def _attend(config: Mapping[str, Any], weights: Mapping[str, Tensor], h_TD: Tensor) -> Tensor:
    heads, groups, width = config["query_heads"], config["key_heads"], config["head_width"]
    fused = (h_TD @ weights["attend.in.weight"].T).unflatten(-1, (heads + 2 * groups, width))
    q_THK, k_TGK, v_TGK = fused.split([heads, groups, groups], dim=1)
    base = float(config.get("rope_base", 10000.0))
    q_THK, k_THK = _turn(q_THK, base), _turn(k_TGK, base).repeat_interleave(heads // groups, dim=1)
    score_HTS = torch.einsum("thk,shk->hts", q_THK, k_THK) * width**-0.5
    distance_TS = torch.arange(len(h_TD))[:, None] - torch.arange(len(h_TD))
    unseen_TS = distance_TS < 0
    if config.get("window"):
        unseen_TS |= distance_TS >= config["window"]
    chance_HTS = score_HTS.masked_fill(unseen_TS, float("-inf")).softmax(-1)
    context_THK = torch.einsum("hts,shk->thk", chance_HTS, v_TGK.repeat_interleave(heads // groups, dim=1))
    return context_THK.flatten(1) @ weights["attend.out.weight"].T


def _think(weights: Mapping[str, Tensor], h_TD: Tensor) -> Tensor:
    gate_TF, up_TF = (h_TD @ weights["think.in.weight"].T).chunk(2, dim=-1)
    return (F.gelu(gate_TF, approximate="tanh") * up_TF) @ weights["think.out.weight"].T


def _turn(x_THK: Tensor, base: float) -> Tensor:
    half = x_THK.shape[-1] // 2
    inverse = base ** -(torch.arange(half, dtype=torch.float64) / half)
    angle_T1R = (torch.arange(len(x_THK), dtype=torch.float64)[:, None] * inverse)[:, None]
    cos_T1R, sin_T1R = angle_T1R.cos().float(), angle_T1R.sin().float()
    first, second = x_THK.split(half, dim=-1)
    return torch.cat((first * cos_T1R - second * sin_T1R, second * cos_T1R + first * sin_T1R), dim=-1)
