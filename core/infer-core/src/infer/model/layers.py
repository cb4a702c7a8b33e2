"""The layers that models are made of. Each says which weight slots it has and is filled with what was found for them.

`__call__` is defined directly: torch's own runs hooks, which nothing here uses and every token would pay for.
Weights are a method's own objects, no torch parameters. Letters: T tokens, R rows to sample, H heads, K head width.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from infer.ops.table import OpTable
from infer_api.attention import AttentionLayer
from infer_api.loaders import StoredTensor
from infer_api.ops import OpImpl
from infer_api.quantization import Component, LinearMethod, QuantMethod, StoredPart
from infer_api.specs import EmbeddingSpec, LinearSpec, NormStyle

__all__ = ["CoreAttention", "EmbeddingLayer", "Found", "LinearLayer", "NormLayer", "Slot", "StepSlot", "WeightedLayer"]

_log = logging.getLogger(__name__)

PLAIN = (Component("weight", suffix=""),)
"""A slot that is one tensor under the very name that its rule gives."""

Found = Mapping[str, Mapping[str, StoredTensor]]
"""Stored tensors by slot and component; optional ones that the checkpoint lacks are not there."""


@dataclass(frozen=True)
class Slot:
    """A place for weights of logical `shape`, made of `components`."""

    name: str
    shape: tuple[int, ...]
    components: tuple[Component, ...] = PLAIN
    optional: bool = False


class WeightedLayer(Protocol):
    """What loading needs of a layer."""

    def slots(self) -> tuple[Slot, ...]: ...

    def fill(self, found: Found, device: torch.device, dtype: torch.dtype) -> None:
        """Take the weights. `found` holds every slot that is not optional."""
        ...


class LinearLayer(nn.Module):
    """Base product, bias, epilogue, in this order."""

    def __init__(self, spec: LinearSpec, method: LinearMethod, ops: OpTable) -> None:
        super().__init__()
        self.spec = spec
        self.method = method
        self.weights: Any = None
        self.bias: Tensor | None = None
        self._apply_weights = method.apply
        self._sizes = [part.d_out for part in spec.parts]
        self._epilogue: OpImpl | None = None
        if spec.epilogue != "none":
            self._epilogue = ops.bind(spec.epilogue, width=spec.d_out // 2)

    def __call__(self, x: Tensor) -> Tensor:
        y = self._apply_weights(x, self.weights, self.bias)
        return y if self._epilogue is None else self._epilogue(y)

    def split(self, y: Tensor) -> tuple[Tensor, ...]:
        return torch.split_with_sizes(y, self._sizes, -1)

    def slots(self) -> tuple[Slot, ...]:
        spec, slots = self.spec, []
        for part in spec.parts:
            name = spec.slot(part)
            slots.append(Slot(name, (part.d_out, spec.d_in), tuple(self.method.storage(spec, part))))
            if spec.bias:
                slots.append(Slot(f"{name}.bias", (part.d_out,)))
        return tuple(slots)

    def fill(self, found: Found, device: torch.device, dtype: torch.dtype) -> None:
        names = [self.spec.slot(part) for part in self.spec.parts]
        parts = [StoredPart(part, found[name]) for part, name in zip(self.spec.parts, names, strict=True)]
        self.weights = self.method.finalize(parts, device, dtype)
        if self.spec.bias:
            biases = [found[f"{name}.bias"]["weight"].dense(dtype) for name in names]
            self.bias = torch.cat(biases).to(device)


class EmbeddingLayer(nn.Module):
    """Table and output head. A tied head is the table itself, unless the checkpoint has another one."""

    def __init__(self, spec: EmbeddingSpec, quant: QuantMethod) -> None:
        super().__init__()
        self.spec = spec
        self._quant = quant
        self._table_method = self._head_method = quant.embedding(spec)
        self._table: Any = None
        self._head: Any = None

    def __call__(self, ids: Tensor) -> Tensor:
        return self._table_method.lookup(ids, self._table)

    def logits(self, h: Tensor) -> Tensor:
        return self._head_method.logits(h, self._head)

    def slots(self) -> tuple[Slot, ...]:
        shape = (self.spec.vocab_size, self.spec.width)
        table = Slot(self.spec.name, shape)
        return (table,) if self.spec.head is None else (table, Slot(self.spec.head, shape, optional=self.spec.tied))

    def fill(self, found: Found, device: torch.device, dtype: torch.dtype) -> None:
        spec, table = self.spec, found[self.spec.name]["weight"]
        head = found[spec.head]["weight"] if spec.head is not None and spec.head in found else None
        if head is not None and spec.tied and _same_values(table, head):
            head = None
        if head is None:
            self._table = self._table_method.finalize(spec, table, device, dtype)
            self._head = self._table if spec.tied else None
            return
        if spec.tied:
            _log.warning(
                "the configuration ties the output head to the embedding, but the checkpoint holds a different "
                "tensor for slot %r; using that tensor",
                spec.head,
            )
        table_spec = replace(spec, tied=False)
        self._table_method = self._quant.embedding(table_spec)
        self._table = self._table_method.finalize(table_spec, table, device, dtype)
        head_spec = EmbeddingSpec(str(spec.head), spec.vocab_size, spec.width, head=spec.head)
        self._head_method = self._quant.embedding(head_spec)
        self._head = self._head_method.finalize(head_spec, head, device, dtype)


class NormLayer(nn.Module):
    """RMSNorm in float32 with its scale in the activation's type, or 1 + w in float32 for the unit offset."""

    def __init__(self, name: str, width: int, eps: float, style: NormStyle, ops: OpTable) -> None:
        super().__init__()
        self.name = name
        self.width = width
        self.style = style
        self.scale = torch.empty(0)
        static = {"eps": eps, "scale_before_cast": style == "rms_unit_offset", "width": width}
        self._norm = ops.bind("rms_norm", **static)
        self._add_norm = ops.bind("add_rms_norm", **static)

    def __call__(self, x: Tensor) -> Tensor:
        return self._norm(x, self.scale)

    def add(self, x: Tensor, residual: Tensor | None) -> tuple[Tensor, Tensor]:
        if residual is None:
            return self._norm(x, self.scale), x
        return self._add_norm(x, residual, self.scale)

    def slots(self) -> tuple[Slot, ...]:
        return (Slot(self.name, (self.width,)),)

    def fill(self, found: Found, device: torch.device, dtype: torch.dtype) -> None:
        stored = found[self.name]["weight"]
        scale = stored.dense(torch.float32).add_(1.0) if self.style == "rms_unit_offset" else stored.dense(dtype)
        self.scale = scale.to(device)


class StepSlot:
    """The forward context: what attention layers find when they are called.

    The runner sets `attention` (an AttentionBackend) and, by layer name, `metas` before the first step; metas are
    kept by reference and brought up to date by the backend's `plan`.
    """

    __slots__ = ("attention", "metas")

    def __init__(self) -> None:
        self.attention: Any = None
        self.metas: dict[str, Any] = {}


class CoreAttention(nn.Module):
    """Hands q, k and v to the backend that the step names."""

    def __init__(self, layer: AttentionLayer, step: StepSlot) -> None:
        super().__init__()
        self.layer = layer
        self._step = step
        self._heads, self._kv_heads, self._size = layer.spec.num_heads, layer.spec.num_kv_heads, layer.spec.head_size

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        num_tokens, size, step = q.shape[0], self._size, self._step
        q_THK = q.reshape(num_tokens, self._heads, size)
        k_TGK = k.reshape(num_tokens, self._kv_heads, size)
        v_TGK = v.reshape(num_tokens, self._kv_heads, size)
        out_THK = q.new_empty((num_tokens, self._heads, size))
        out_THK = step.attention.attend(self.layer, q_THK, k_TGK, v_TGK, step.metas[self.layer.name], out_THK)
        return out_THK.reshape(num_tokens, self._heads * size)


def _same_values(one: StoredTensor, other: StoredTensor) -> bool:
    if one.shape != other.shape or one.format != other.format:
        return False
    ours, theirs = one.components(), other.components()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
