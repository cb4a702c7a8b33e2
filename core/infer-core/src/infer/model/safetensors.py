"""Checkpoint folders as Hugging Face lays them out: config.json beside one or several .safetensors files.

    model.safetensors.index.json    tensor → file     (several shards; wins when both are there)
    model.safetensors                                 (one file)

The data are read by the safetensors library; what is wrong with a damaged file is worked out here.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from infer.model.json_files import find_json, read_json
from infer.model.tokenizer_files import TOKENIZER, read_tokenizer
from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo
from infer_api.specs import CheckpointConfig
from infer_api.tokenizers import TokenizerSource

__all__ = ["DenseTensor", "SafetensorsCheckpoint"]

_log = logging.getLogger(__name__)

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
BITS = {"F64": 64, "F32": 32, "F16": 16, "BF16": 16, "I64": 64, "I32": 32, "I16": 16, "I8": 8, "U8": 8, "BOOL": 8}
FORMATS = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
"""torch's names of stored types."""


class DenseTensor:
    """A StoredTensor over a plain tensor, which may be a view of a mapped file."""

    def __init__(self, values: Tensor) -> None:
        self._values = values
        self.shape = tuple(values.shape)
        self.format = f"dense.{str(values.dtype).removeprefix('torch.')}"

    def narrow(self, axis: int, start: int, length: int) -> DenseTensor:
        return DenseTensor(self._values.narrow(axis, start, length))

    def take_rows(self, index: Tensor) -> DenseTensor:
        return DenseTensor(self._values.index_select(0, index))

    def components(self) -> Mapping[str, Tensor]:
        return {"weight": self._values}

    def dense(self, dtype: torch.dtype) -> Tensor:
        return self._values.to(dtype, copy=True, memory_format=torch.contiguous_format)


class SafetensorsCheckpoint:
    """Reads headers and the index when opened; tensors are views of mapped files.

    Raises ModelError for a missing shard, a truncated file, or an index that names tensors its shards lack. A folder
    with a tokenizer and nothing else gives that; whatever asks it for a model gets a ModelError.
    """

    def __init__(self, path: Path, options: Any) -> None:
        self._folder = Path(path)
        self._is_model = not _is_tokenizer_only(self._folder)
        self._config = (read_json if self._is_model else find_json)(self._folder / "config.json")
        index = _read_index(self._folder)
        files = sorted(set(index.values())) if index else [_single_file(self._folder)] if self._is_model else []
        _check_present(self._folder, files, in_index=bool(index))
        self._open = {name: _opened(self._folder / name) for name in files}
        self._owner = {tensor: name for name, file in self._open.items() for tensor in file.keys()}  # noqa: SIM118
        _check_index(self._folder, index, self._open)
        self._owner |= index
        self._warn_of_strays(files)

    def dialect(self) -> str:
        return "hf"

    def config(self) -> CheckpointConfig:
        if not self._is_model:
            raise ModelError(f"{self._folder}: this folder holds a tokenizer, and no weight files at all")
        return CheckpointConfig("hf", str(self._folder / "config.json"), self._config, frozenset(self._owner))

    def tensors(self) -> Iterable[TensorInfo]:
        return [self._info(name) for name in self._owner]

    def read(self, name: str) -> DenseTensor:
        owner = self._owner.get(name)
        if owner is None:
            raise ModelError(f"{self._folder}: there is no tensor {name!r} in this checkpoint")
        try:
            return DenseTensor(self._open[owner].get_tensor(name))
        except SafetensorError as error:
            raise ModelError(f"{self._folder / owner}: tensor {name!r} cannot be read: {error}") from error

    def tokenizer(self) -> TokenizerSource | None:
        return read_tokenizer(self._folder, self._config)

    def close(self) -> None:
        self._open.clear()

    def _info(self, name: str) -> TensorInfo:
        described = self._open[self._owner[name]].get_slice(name)
        shape, kind = tuple(described.get_shape()), described.get_dtype()
        return TensorInfo(name, shape, f"dense.{FORMATS.get(kind, kind)}", math.prod(shape) * BITS.get(kind, 8) // 8)

    def _warn_of_strays(self, files: list[str]) -> None:
        strays = sorted({file.name for file in self._folder.glob("*.safetensors")}.difference(files))
        if strays:
            _log.warning(
                "%s: ignoring %s, which %s not part of this checkpoint (it is made of %s)",
                self._folder,
                _listed(strays),
                "is" if len(strays) == 1 else "are",
                _listed(files),
            )


def _is_tokenizer_only(folder: Path) -> bool:
    return (folder / TOKENIZER).exists() and not (folder / INDEX).exists() and not _weight_files(folder)


def _read_index(folder: Path) -> Mapping[str, str]:
    """File name by tensor, or {} where there is no index."""
    path = folder / INDEX
    if not path.exists():
        return {}
    index = read_json(path).get("weight_map")
    if not isinstance(index, dict) or not index or not all(isinstance(name, str) for name in index.values()):
        raise ModelError(f"{path}: the key 'weight_map' must map tensor names to file names")
    outside = sorted({name for name in index.values() if Path(name).is_absolute() or ".." in Path(name).parts})
    if outside:
        raise ModelError(f"{path}: the key 'weight_map' names files outside its folder: {_listed(outside)}")
    return index


def _single_file(folder: Path) -> str:
    if not (folder / SINGLE).exists():
        others = _weight_files(folder)
        found = f"found {_listed(others)}" if others else "found no weight files at all"
        raise ModelError(f"{folder}: neither {SINGLE} nor {INDEX} is there; {found}")
    return SINGLE


def _weight_files(folder: Path) -> list[str]:
    return sorted(file.name for suffix in ("safetensors", "bin", "pth") for file in folder.glob(f"*.{suffix}"))


def _check_present(folder: Path, files: list[str], *, in_index: bool) -> None:
    missing = [name for name in files if not (folder / name).is_file()]
    if missing:
        where = f"{folder / INDEX}: it names {len(files)} files" if in_index else str(folder)
        raise ModelError(f"{where}, and {len(missing)} of them cannot be found: {_listed(missing)}")


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise ModelError(_damage(path) or f"{path}: this is not a usable safetensors file: {error}") from error
    except RuntimeError as error:  # torch maps the file, and the system grants no more than the memory it has
        raise ModelError(
            f"{path}: the file has {path.stat().st_size / 2**30:,.1f} GiB, which this machine's memory cannot map; "
            "take a smaller or quantized model, or one in several shards"
        ) from error


def _damage(path: Path) -> str | None:
    """What is wrong with a file that cannot be opened, where the length and the header show it."""
    size = path.stat().st_size
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        if size >= 8 and header_bytes > 100_000_000:
            return f"{path}: this is not a safetensors file"
        if size < 8 + header_bytes:
            return f"{path}: the file is truncated: {size} bytes, which end inside its header"
        try:
            entries = msgspec.json.decode(file.read(header_bytes), type=dict[str, dict[str, Any]])
            needed = 8 + header_bytes + max(entry.get("data_offsets", (0, 0))[1] for entry in entries.values())
        except (msgspec.DecodeError, ValueError, TypeError, IndexError):
            return None
    if size < needed:
        return f"{path}: the file is truncated: it should have {needed} bytes and ends after {size}"
    return None


def _check_index(folder: Path, index: Mapping[str, str], opened: Mapping[str, Any]) -> None:
    held = {name: set(file.keys()) for name, file in opened.items()}
    absent = [f"{tensor} (in {name})" for tensor, name in index.items() if tensor not in held[name]]
    if absent:
        raise ModelError(
            f"{folder / INDEX}: {len(absent)} of {len(index)} tensors are not in the files that the index names: "
            f"{_listed(absent)}"
        )


def _listed(names: list[str], limit: int = 5) -> str:
    shown = ", ".join(names[:limit])
    return shown if len(names) <= limit else f"{shown} and {len(names) - limit} more"
