"""Small GGUF files, written by the library that other projects use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

WriteGguf = Callable[..., Path]


@pytest.fixture
def write_gguf(tmp_path: Path) -> WriteGguf:
    """write_gguf(name, keys={..}, tensors={name: (array, type name)}): arrays are float32 and get quantised."""

    def write(
        name: str = "tiny.gguf",
        keys: dict[str, Any] | None = None,
        tensors: dict[str, tuple[np.ndarray, str]] | None = None,
        alignment: int = 32,
    ) -> Path:
        path = tmp_path / name
        writer = gguf.GGUFWriter(path, "llama")
        if alignment != 32:
            writer.add_custom_alignment(alignment)
        for key, value in (keys or {}).items():
            add_key(writer, key, value)
        for tensor, (values, kind) in (tensors or {}).items():
            type_id = gguf.GGMLQuantizationType[kind]
            writer.add_tensor(tensor, gguf.quants.quantize(values, type_id), raw_dtype=type_id)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return write


def add_key(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """A tuple (method name, value) names the type; plain values take the usual one."""
    if isinstance(value, tuple):
        getattr(writer, f"add_{value[0]}")(key, value[1])
    elif isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    elif isinstance(value, int):
        writer.add_uint32(key, value)
    else:
        writer.add_float32(key, value)


@pytest.fixture
def matrix() -> Callable[[int, int], np.ndarray]:
    """matrix(rows, width): normal random float32, the same in each test."""
    return lambda rows, width: np.random.default_rng(rows * width).standard_normal((rows, width), dtype=np.float32)
