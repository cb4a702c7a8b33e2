"""From a checkpoint to a model with weights, by the family's WeightMap. The only code that matches slots with tensors.

    family.build ──► layers ──► slots ─┐
    family.weights ──► rules ──────────┼──► sources, all checked before any data is read ──► layer.fill
    checkpoint.tensors ────────────────┘

Tensors may be packed: only their names, logical shapes and row operations are used here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import cast

import torch

from infer.config.sizes import format_size
from infer.model.factory import CoreLayerFactory
from infer.model.layers import Slot, WeightedLayer
from infer_api.errors import ModelError
from infer_api.layers import LayerFactory
from infer_api.loaders import Checkpoint, StoredTensor, TensorInfo
from infer_api.models import Model, ModelFamily
from infer_api.specs import ModelFacts
from infer_api.weights import InterleavedRows, RowRange, WeightMap, WeightRule

__all__ = ["Progress", "build_and_load"]

Progress = Callable[[str, int, int], None]
"""Called as (tensor name, bytes done, bytes in all) after each tensor."""

WEIGHT = ".weight"
PLACEHOLDER = re.compile(r"\{(\w+)\}")


@dataclass
class _Source:
    """Where the components of one slot come from."""

    slot: Slot
    rule: WeightRule
    tensors: dict[str, str] = field(default_factory=dict)


@torch.no_grad()
def build_and_load(
    family: ModelFamily,
    facts: ModelFacts,
    checkpoint: Checkpoint,
    factory: CoreLayerFactory,
    *,
    available_bytes: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """Build the model of `facts` with `factory` and fill every weight slot from `checkpoint`.

    Raises ModelError before reading data when a slot stays empty, a tensor is neither taken nor ignored, or the
    weights need more than `available_bytes` of device memory (None: not checked); and while reading for a shape
    that does not fit.
    """
    model = cast(Model, family.build(facts, cast(LayerFactory, factory)).eval())
    infos = {info.name: info for info in checkpoint.tensors()}
    where = checkpoint.config().where
    weight_map = family.weights(facts)
    resolver = _Resolver(weight_map, infos)
    sources = {name: list(resolver.resolve(layer.slots())) for name, layer in factory.layers.items()}
    resolver.check(where)
    taken = {tensor for found in sources.values() for source in found for tensor in source.tensors.values()}
    _check_all_used(infos, taken, weight_map, where)
    _check_memory([infos[name] for name in taken], factory.dtype, available_bytes, where)
    total = sum(infos[name].num_bytes for name in taken)
    done = 0
    for name, layer in factory.layers.items():
        _fill(layer, sources[name], checkpoint, factory)
        for tensor in (tensor for source in sources[name] for tensor in source.tensors.values()):
            if tensor in taken:  # a stored tensor may serve several slots
                taken.remove(tensor)
                done += infos[tensor].num_bytes
                if progress is not None:
                    progress(tensor, done, total)
    return model


class _Resolver:
    """Finds the tensors of slots, and remembers what it could not find."""

    def __init__(self, weight_map: WeightMap, infos: Mapping[str, TensorInfo]) -> None:
        self._rules = [(_pattern(rule.slot), rule) for rule in weight_map.rules]
        self._infos = infos
        self._empty: list[str] = []

    def resolve(self, slots: Iterable[Slot]) -> Iterator[_Source]:
        for slot in slots:
            source, missing = self._find(slot)
            if source is not None:
                yield source
            elif not slot.optional:
                self._empty.append(f"{slot.name} ({missing})")

    def check(self, where: str) -> None:
        if self._empty:
            raise ModelError(
                f"{where}: {len(self._empty)} weights of the model are not in the checkpoint: {_listed(self._empty)}"
            )

    def _find(self, slot: Slot) -> tuple[_Source | None, str]:
        """The first rule whose tensors are all there; else the tensors that were looked for."""
        missing: list[str] = []
        for pattern, rule in self._rules:
            match = pattern.fullmatch(slot.name)
            if match is None:
                continue
            name = rule.source.format(**match.groupdict())
            source = _Source(slot, rule)
            absent = []
            for component in slot.components:
                tensor = name.removesuffix(WEIGHT) + component.suffix if component.suffix else name
                if tensor in self._infos:
                    source.tensors[component.name] = tensor
                elif not component.optional:
                    absent.append(tensor)
            if not absent:
                return source, ""
            missing += absent
        return None, f"tensor {' or '.join(missing)} is missing" if missing else "no rule of the model plugin fills it"


def _pattern(slot: str) -> re.Pattern[str]:
    pieces = PLACEHOLDER.split(slot)
    return re.compile("".join(f"(?P<{piece}>[^.#]+)" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces)))


def _check_all_used(infos: Mapping[str, TensorInfo], taken: set[str], weight_map: WeightMap, where: str) -> None:
    globs = [ignore.pattern for ignore in weight_map.ignored]
    left = [name for name in infos if name not in taken and not any(fnmatchcase(name, glob) for glob in globs)]
    if left:
        raise ModelError(
            f"{where}: {len(left)} tensors of the checkpoint belong to no part of the model, so it would not compute "
            f"what was trained: {_listed(left)}"
        )


def _check_memory(infos: list[TensorInfo], dtype: torch.dtype, available_bytes: int | None, where: str) -> None:
    # Plain tensors are held in the activation type, packed ones as they are stored.
    needed = sum(
        math.prod(info.shape) * dtype.itemsize if info.format.startswith("dense.") else info.num_bytes for info in infos
    )
    if available_bytes is not None and needed > available_bytes:
        raise ModelError(
            f"{where}: the weights need {format_size(needed)} of memory in {str(dtype).removeprefix('torch.')}, but "
            f"only {format_size(available_bytes)} are available; free memory, or take a smaller or quantized model"
        )


def _fill(layer: WeightedLayer, sources: list[_Source], checkpoint: Checkpoint, factory: CoreLayerFactory) -> None:
    found = {source.slot.name: _read(source, checkpoint) for source in sources}
    layer.fill(found, factory.device, factory.dtype)


def _read(source: _Source, checkpoint: Checkpoint) -> dict[str, StoredTensor]:
    found = {}
    for component in source.slot.components:
        tensor = source.tensors.get(component.name)
        if tensor is None:
            continue
        stored = _logical_rows(checkpoint.read(tensor), source.rule, tensor)
        is_whole = component.suffix in ("", WEIGHT)  # other components have shapes that only their method knows
        if is_whole and tuple(stored.shape) != source.slot.shape:
            raise ModelError(
                f"weight {source.slot.name!r} must be {list(source.slot.shape)}, but tensor {tensor!r} "
                f"gives {list(stored.shape)}"
            )
        found[component.name] = stored
    return found


def _logical_rows(stored: StoredTensor, rule: WeightRule, tensor: str) -> StoredTensor:
    rows, num_rows = rule.rows, stored.shape[0] if stored.shape else 0
    if isinstance(rows, RowRange):
        if rows.start + rows.length > num_rows:
            end = rows.start + rows.length
            raise ModelError(f"tensor {tensor!r} has {num_rows} rows, but rows {rows.start} to {end} are needed of it")
        return stored.narrow(0, rows.start, rows.length)
    if isinstance(rows, InterleavedRows):
        if num_rows % (2 * rows.num_heads):
            raise ModelError(
                f"tensor {tensor!r} has {num_rows} rows, which {rows.num_heads} heads of pairs cannot share"
            )
        # Even stored rows of a head are its first half, odd ones its second.
        return stored.take_rows(torch.arange(num_rows).view(rows.num_heads, -1, 2).transpose(1, 2).reshape(-1))
    return stored


def _listed(names: list[str], limit: int = 5) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
