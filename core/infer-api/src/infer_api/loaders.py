"""Kind `loaders`: checkpoints on disk, and the tensors in them before they become weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from infer_api.specs import CheckpointConfig
from infer_api.tokenizers import TokenizerSource

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Checkpoint", "StoredTensor", "TensorInfo"]


@dataclass(frozen=True)
class TensorInfo:
    """Name, logical shape [out, in] (or [n]), storage format and size of one stored tensor."""

    name: str
    shape: tuple[int, ...]
    format: str
    num_bytes: int


class StoredTensor(Protocol):
    """One tensor as it lies in a checkpoint, read lazily.

    `shape` is logical ([out, in] for matrices, whatever the file's own order). `format` is "dense.float32"
    and the like for plain tensors, and a plugin's own word such as "myformat.q4" for packed ones.
    """

    shape: tuple[int, ...]
    format: str

    def narrow(self, axis: int, start: int, length: int) -> StoredTensor:
        """A view of `length` entries of a logical axis. Raises NotSliceable(multiple=…) where packing forbids it."""
        ...

    def take_rows(self, index: Tensor) -> StoredTensor:
        """The rows `index` [int64] of axis 0, in that order. Raises NotSliceable where packing forbids it."""
        ...

    def components(self) -> Mapping[str, Tensor]:
        """The raw tensors that make it up, by component name; for dense tensors {"weight": t}."""
        ...

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The values as a new contiguous tensor of `dtype` on the CPU, in the logical shape."""
        ...


class Checkpoint(Protocol):
    """One opened checkpoint. Built by the manifest's `implementation(path, options)`; closed after loading.

    Opening reads headers only; damage that headers can show (truncation, missing shards) is a ModelError then.
    """

    def __init__(self, path: Path, options: Any) -> None: ...

    def dialect(self) -> str:
        """Name of the naming scheme of keys and tensors ("hf", or a file format's own)."""
        ...

    def config(self) -> CheckpointConfig:
        """The model configuration. Raises ModelError when it is missing or unreadable."""
        ...

    def tensors(self) -> Iterable[TensorInfo]:
        """Every tensor, without reading data."""
        ...

    def read(self, name: str) -> StoredTensor:
        """The tensor called `name`. Raises ModelError naming file and tensor when it is absent."""
        ...

    def tokenizer(self) -> TokenizerSource | None:
        """Where the tokenizer comes from, or None when the checkpoint holds none."""
        ...

    def close(self) -> None:
        """Release files and maps."""
        ...
