"""A checkpoint that never touched a disk: a configuration and some tensors, in any dialect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo
from infer_api.specs import CheckpointConfig
from infer_api.tokenizers import TokenizerSource

__all__ = ["MemoryCheckpoint", "MemoryTensor"]


class MemoryTensor:
    """A plain tensor as a `StoredTensor`."""

    def __init__(self, values: Tensor) -> None:
        self.values = values
        self.shape: tuple[int, ...] = tuple(values.shape)
        self.format = f"dense.{str(values.dtype).removeprefix('torch.')}"

    def narrow(self, axis: int, start: int, length: int) -> MemoryTensor:
        return MemoryTensor(self.values.narrow(axis, start, length))

    def take_rows(self, index: Tensor) -> MemoryTensor:
        return MemoryTensor(self.values[index])

    def components(self) -> Mapping[str, Tensor]:
        return {"weight": self.values}

    def dense(self, dtype: torch.dtype) -> Tensor:
        return self.values.to(dtype, copy=True, memory_format=torch.contiguous_format)


class MemoryCheckpoint:
    """Implements `infer_api.loaders.Checkpoint` over a dictionary of tensors."""

    def __init__(
        self,
        values: Mapping[str, Any],
        tensors: Mapping[str, Tensor],
        *,
        dialect: str = "hf",
        architecture_key: str = "architectures",
        tokenizer: TokenizerSource | None = None,
    ) -> None:
        self._config = CheckpointConfig(
            dialect, "memory", values, frozenset(tensors), architecture_key=architecture_key
        )
        self._tensors = dict(tensors)
        self._tokenizer = tokenizer
        self.read_names: list[str] = []
        """Names of all tensors read so far."""

    def dialect(self) -> str:
        return self._config.dialect

    def config(self) -> CheckpointConfig:
        return self._config

    def tensors(self) -> Iterable[TensorInfo]:
        for name, values in self._tensors.items():
            stored = MemoryTensor(values)
            yield TensorInfo(name, stored.shape, stored.format, values.nbytes)

    def read(self, name: str) -> MemoryTensor:
        if name not in self._tensors:
            raise ModelError(f"memory: there is no tensor {name!r}")
        self.read_names.append(name)
        return MemoryTensor(self._tensors[name])

    def tokenizer(self) -> TokenizerSource | None:
        return self._tokenizer

    def close(self) -> None:
        """Drop the tensors."""
        self._tensors.clear()
