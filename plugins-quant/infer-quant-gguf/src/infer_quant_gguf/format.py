"""Reader of one GGUF file, version 2 or 3: header, metadata, tensor directory, and the mapped tensor data.

Own code and not the library `gguf`: that one checks no size before it allocates, and takes seconds for the
vocabulary of a large tokenizer. Here every count is compared with the file's size first, so a damaged file ends in
one error (see `errors`) and never in a giant allocation.

    magic "GGUF" | version u32 | num_tensors u64 | num_keys u64 | keys .. | tensor directory .. | padding | data
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from infer_quant_gguf.blocks import BLOCK_FORMATS, GGML_TYPE_NAMES, BlockFormat
from infer_quant_gguf.cursor import Cursor, Value
from infer_quant_gguf.errors import (
    GgufError,
    GgufMalformed,
    GgufTruncated,
    NotGguf,
    TensorOutOfBounds,
    UnsupportedGgufVersion,
    UnsupportedTensorType,
)

__all__ = ["GgufFile", "TensorEntry"]

_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_MAX_DIMS = 4
_SMALLEST_KEY_BYTES = 13  # length of its name u64, type u32, one byte of value
_SMALLEST_TENSOR_BYTES = 24  # length of its name u64, dimensions u32, type u32, offset u64


@dataclass(frozen=True)
class TensorEntry:
    """Where a tensor lies. `shape` is logical, outermost first: [out, in] for a linear weight."""

    name: str
    shape: tuple[int, ...]
    format: BlockFormat
    offset: int
    """First byte, counted from the start of the file."""
    num_bytes: int


@dataclass(frozen=True)
class GgufFile:
    """One opened file. Nothing of its tensor data has been read."""

    path: Path
    version: int
    metadata: Mapping[str, Value]
    tensors: Mapping[str, TensorEntry]
    data: mmap.mmap

    @classmethod
    def open(cls, path: Path) -> GgufFile:
        """Map the file and read its header.

        Raises GgufError, in one of its kinds, and OSError when the file cannot be opened.
        """
        cursor = Cursor(path, _map(path))
        version = _read_version(cursor)
        num_tensors, num_keys = cursor.read_u64("the header"), cursor.read_u64("the header")
        cursor.require(num_keys * _SMALLEST_KEY_BYTES, f"the metadata ({num_keys} keys)")
        metadata = _read_metadata(cursor, num_keys)
        cursor.require(num_tensors * _SMALLEST_TENSOR_BYTES, f"the directory of {num_tensors} tensors")
        alignment = _alignment(path, metadata)
        directory = [_read_entry(cursor, index) for index in range(num_tensors)]
        start = math.ceil(cursor.offset / alignment) * alignment
        tensors = _place(path, directory, start, alignment, cursor.size)
        return cls(path, version, metadata, tensors, cursor.data)

    def raw(self, name: str) -> Tensor:
        """The tensor's bytes, uint8 [*shape[:-1], bytes of a row], mapped and not copied.

        The mapping is private: writing to the result does not reach the file, but nobody should.
        """
        entry = self.tensors[name]
        sizes = (*entry.shape[:-1], entry.format.row_bytes(entry.shape[-1]))
        if entry.num_bytes == 0:
            return torch.empty(sizes, dtype=torch.uint8)
        flat = torch.frombuffer(self.data, dtype=torch.uint8, count=entry.num_bytes, offset=entry.offset)
        return flat.view(sizes)


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            raise NotGguf(path, "this is not a GGUF file: it is empty")
        # Private and writable, because torch warns about buffers that are read-only.
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)


def _read_version(cursor: Cursor) -> int:
    magic = cursor.data[:4]
    if magic != b"GGUF":
        raise NotGguf(cursor.path, f"this is not a GGUF file: it begins with {magic!r} and not with b'GGUF'")
    cursor.offset = 4
    version = cursor.read_u32("the header")
    if version in _VERSIONS:
        return version
    if version & 0xFFFF == 0:
        raise UnsupportedGgufVersion(cursor.path, "the file is big-endian; convert it to little-endian GGUF")
    known = " and ".join(str(known) for known in _VERSIONS)
    raise UnsupportedGgufVersion(cursor.path, f"GGUF version {version} is not supported, only {known} are")


def _read_metadata(cursor: Cursor, num_keys: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for index in range(num_keys):
        key = cursor.read_string(f"the name of metadata key {index}")
        if key in found:
            raise GgufMalformed(cursor.path, f"metadata key {key!r} appears twice")
        found[key] = cursor.read_value(cursor.read_u32(f"metadata key {key!r}"), f"metadata key {key!r}")
    return found


def _alignment(path: Path, metadata: Mapping[str, Value]) -> int:
    alignment = metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
    if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
        raise GgufMalformed(path, f"general.alignment is {alignment!r}, expected a positive multiple of 8")
    return alignment


def _read_entry(cursor: Cursor, index: int) -> TensorEntry:
    """One entry of the directory; its offset still counts from the start of the data."""
    name = cursor.read_string(f"the name of tensor {index}")
    what = f"the directory entry of tensor {name!r}"
    num_dims = cursor.read_u32(what)
    if num_dims > _MAX_DIMS:
        raise GgufMalformed(cursor.path, f"tensor {name!r} has {num_dims} dimensions, at most {_MAX_DIMS} are possible")
    dims = cursor.read_u64s(num_dims, what)
    shape = tuple(reversed(dims)) or (1,)
    type_id, offset = cursor.read_u32(what), cursor.read_u64(what)
    fmt = BLOCK_FORMATS.get(type_id)
    if fmt is None:
        raise _unsupported_type(cursor.path, name, type_id)
    if shape[-1] % fmt.block_len:
        raise GgufMalformed(
            cursor.path,
            f"tensor {name!r} has rows of {shape[-1]} values, which is no multiple of {fmt.block_len}, "
            f"the block length of {fmt.label}",
        )
    return TensorEntry(name, shape, fmt, offset, math.prod(shape[:-1]) * fmt.row_bytes(shape[-1]))


def _unsupported_type(path: Path, name: str, type_id: int) -> GgufError:
    called = GGML_TYPE_NAMES.get(type_id, f"number {type_id}")
    known = ", ".join(sorted(fmt.label for fmt in BLOCK_FORMATS.values()))
    return UnsupportedTensorType(path, f"unsupported type {called} in tensor {name!r} (supported: {known})")


def _place(path: Path, directory: list[TensorEntry], start: int, alignment: int, size: int) -> dict[str, TensorEntry]:
    """Turn offsets into positions in the file and check that all data lies inside it."""
    # Tensors lie one after the other, each padded; the last one may lack its padding.
    announced = sum(math.ceil(entry.num_bytes / alignment) * alignment for entry in directory)
    placed: dict[str, TensorEntry] = {}
    for entry in directory:
        if entry.name in placed:
            raise GgufMalformed(path, f"tensor {entry.name!r} appears twice")
        if entry.offset % alignment:
            raise GgufMalformed(path, f"tensor {entry.name!r} begins at {entry.offset}, no multiple of {alignment}")
        if entry.offset + entry.num_bytes > max(announced, size - start):
            raise TensorOutOfBounds(
                path,
                f"tensor {entry.name!r} would end at byte {start + entry.offset + entry.num_bytes}, past the end of "
                f"the file ({size} bytes) and of all tensor data ({start + announced} bytes)",
            )
        at = start + entry.offset
        placed[entry.name] = TensorEntry(entry.name, entry.shape, entry.format, at, entry.num_bytes)
    end = max((entry.offset + entry.num_bytes for entry in placed.values()), default=0)
    if end > size:
        raise GgufTruncated(path, end, size, "tensor data")
    return placed
