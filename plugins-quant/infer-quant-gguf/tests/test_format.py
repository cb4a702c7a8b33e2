"""Reading headers, whole and damaged (case B70)."""

from __future__ import annotations

import struct
import time
from contextlib import suppress
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from infer_api.errors import ModelError
from infer_quant_gguf.errors import (
    GgufMalformed,
    GgufTruncated,
    NotGguf,
    TensorOutOfBounds,
    UnsupportedGgufVersion,
    UnsupportedTensorType,
)
from infer_quant_gguf.format import GgufFile


def header(version: int = 3, num_tensors: int = 0, num_keys: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, num_tensors, num_keys)


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def tensor(name: str, dims: tuple[int, ...], type_id: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, type_id, offset)


def opened(path: Path, content: bytes) -> GgufFile:
    path.write_bytes(content)
    return GgufFile.open(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "broken.gguf"


def test_metadata_of_every_type_is_read(write_gguf) -> None:
    keys = {
        "a.u8": ("uint8", 200), "a.i8": ("int8", -100), "a.u16": ("uint16", 65535), "a.i16": ("int16", -5),
        "a.u32": ("uint32", 2**32 - 1), "a.i32": ("int32", -7), "a.u64": ("uint64", 2**63),
        "a.f32": ("float32", 0.5), "a.f64": ("float64", 0.1), "a.i64": ("int64", -(2**40)),
        "a.yes": True, "a.text": "naïve 🤗",
        "a.strings": ["x", "", "日本"], "a.ints": [1, -2], "a.floats": [0.25, 4.0], "a.bools": [True, False],
    }  # fmt: skip
    found = GgufFile.open(write_gguf(keys=keys)).metadata
    assert found["general.architecture"] == "llama"
    for key, value in keys.items():
        assert found[key] == (value[1] if isinstance(value, tuple) else value), key


def test_nested_arrays_are_read(path: Path) -> None:
    inner = struct.pack("<IQ2H", 2, 2, 7, 8)
    content = header(num_keys=1) + text("k") + struct.pack("<IIQ", 9, 9, 2) + inner + inner
    assert opened(path, content).metadata == {"k": [[7, 8], [7, 8]]}


@pytest.mark.parametrize("alignment", [32, 128])
def test_tensors_have_their_logical_shape_and_bytes(write_gguf, matrix, alignment: int) -> None:
    values = {"w": matrix(3, 64), "e": matrix(5, 32)}
    tensors = {"w": (values["w"], "Q4_0"), "e": (values["e"], "Q8_0"), "n": (matrix(1, 7)[0], "F32")}
    file = GgufFile.open(write_gguf(tensors=tensors, alignment=alignment))
    assert {name: entry.shape for name, entry in file.tensors.items()} == {"w": (3, 64), "e": (5, 32), "n": (7,)}
    for name in ("w", "e"):
        stored = gguf.quants.quantize(values[name], gguf.GGMLQuantizationType(file.tensors[name].format.type_id))
        assert np.array_equal(file.raw(name).numpy(), stored)
    assert torch.equal(file.raw("n").view(torch.float32), torch.from_numpy(tensors["n"][0]))


def test_version_two_is_read(write_gguf) -> None:
    path = write_gguf(keys={"k": 5})
    content = bytearray(path.read_bytes())
    content[4] = 2
    assert opened(path, bytes(content)).metadata["k"] == 5


@pytest.mark.parametrize("content", [b"", b"GG", b"PK\x03\x04 and more than that", b"\x00" * 64])
def test_other_files_are_called_no_gguf(path: Path, content: bytes) -> None:
    with pytest.raises(NotGguf, match=r"broken\.gguf: this is not a GGUF file"):
        opened(path, content)


@pytest.mark.parametrize(("version", "says"), [(99, "version 99"), (1, "version 1"), (3 << 24, "big-endian")])
def test_other_versions_are_refused(path: Path, version: int, says: str) -> None:
    with pytest.raises(UnsupportedGgufVersion, match=says):
        opened(path, header(version))


@pytest.mark.parametrize("counts", [{"num_tensors": 2**60}, {"num_keys": 2**60}, {"num_tensors": 2**64 - 1}])
def test_absurd_counts_end_at_once(path: Path, counts: dict[str, int]) -> None:
    start = time.perf_counter()
    with pytest.raises(GgufTruncated, match=r"needs byte \d+, but the file ends at byte 24"):
        opened(path, header(**counts))
    assert time.perf_counter() - start < 0.5


@pytest.mark.parametrize("kind", [0, 8, 9, 7, 12])
def test_an_absurd_array_length_ends_at_once(path: Path, kind: int) -> None:
    with pytest.raises(GgufTruncated, match="'k'"):
        opened(path, header(num_keys=1) + text("k") + struct.pack("<IIQ", 9, kind, 2**61) + b"\0" * 64)


def test_an_absurd_string_length_ends_at_once(path: Path) -> None:
    with pytest.raises(GgufTruncated):
        opened(path, header(num_keys=1) + struct.pack("<Q", 2**62) + b"\0" * 64)


def test_deeply_nested_arrays_are_refused(path: Path) -> None:
    with pytest.raises(GgufMalformed, match="deeper"):
        opened(path, header(num_keys=1) + text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000)


def test_every_truncation_is_one_error(write_gguf, matrix, path: Path) -> None:
    keys = {"tokenizer.ggml.tokens": ["a", "bc", ""], "f": 1.5}
    content = write_gguf(keys=keys, tensors={"w": (matrix(2, 32), "Q8_0")}).read_bytes()
    for length in range(4, 24 + 34 * 2 * 2, 3):
        with pytest.raises(GgufTruncated, match=f"the file ends at byte {length}"):
            opened(path, content[:length])
    data = 2 * 34
    end = len(content) - (-data % 32)
    with pytest.raises(GgufTruncated, match=f"tensor data needs byte {end}"):
        opened(path, content[: end - 1])


def test_an_offset_past_the_end_is_told_from_truncation(path: Path) -> None:
    with pytest.raises(TensorOutOfBounds, match="'w' would end at byte"):
        opened(path, header(num_tensors=1) + tensor("w", (4,), 0, 2**40) + b"\0" * 256)


@pytest.mark.parametrize(("type_id", "says"), [(16, "IQ2_XXS"), (39, "MXFP4"), (4, "number 4"), (2**31, "number")])
def test_an_unsupported_type_names_type_and_tensor(path: Path, type_id: int, says: str) -> None:
    with pytest.raises(UnsupportedTensorType, match=rf"type {says}.* in tensor 'blk\.0\.w' \(supported: BF16"):
        opened(path, header(num_tensors=1) + tensor("blk.0.w", (256,), type_id, 0) + b"\0" * 512)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (tensor("w", (33,), 2, 0), "33 values"),
        (tensor("w", (1, 1, 1, 1, 1), 0, 0), "5 dimensions"),
        (tensor("w", (4,), 0, 4), "no multiple of 32"),
        (struct.pack("<Q", 2) + b"\xff\xfe" + b"\0" * 64, "not UTF-8"),
    ],
)
def test_a_wrong_directory_entry_is_malformed(path: Path, content: bytes, says: str) -> None:
    with pytest.raises(GgufMalformed, match=says):
        opened(path, header(num_tensors=1) + content + b"\0" * 512)


def test_names_that_appear_twice_are_malformed(path: Path) -> None:
    twice = tensor("w", (4,), 0, 0) + tensor("w", (4,), 0, 32)
    with pytest.raises(GgufMalformed, match="'w' appears twice"):
        opened(path, header(num_tensors=2) + twice + b"\0" * 256)
    key = text("k") + struct.pack("<IB", 0, 1)
    with pytest.raises(GgufMalformed, match="'k' appears twice"):
        opened(path, header(num_keys=2) + key + key)


@pytest.mark.parametrize("value", [0, 12])
def test_a_wrong_alignment_is_malformed(path: Path, value: int) -> None:
    key = text("general.alignment") + struct.pack("<II", 4, value)
    with pytest.raises(GgufMalformed, match=r"general\.alignment"):
        opened(path, header(num_keys=1) + key + b"\0" * 64)


def test_an_unknown_value_type_is_malformed(path: Path) -> None:
    with pytest.raises(GgufMalformed, match="unknown value type 77"):
        opened(path, header(num_keys=1) + text("k") + struct.pack("<I", 77) + b"\0" * 64)


def test_random_damage_is_a_model_error_or_harmless(write_gguf, matrix, path: Path) -> None:
    keys = {"tokenizer.ggml.tokens": ["a", "bc"], "s": "text"}
    good = write_gguf(keys=keys, tensors={"w": (matrix(2, 32), "Q4_1"), "v": (matrix(1, 8), "F32")}).read_bytes()
    random = np.random.default_rng(0)
    for _ in range(300):
        bad = bytearray(good)
        for at in random.integers(4, len(good), 3):
            bad[at] = random.integers(0, 256)
        with suppress(ModelError):
            file = opened(path, bytes(bad))
            for name in file.tensors:
                file.raw(name).sum()


def test_a_large_vocabulary_is_read_in_well_under_a_second(write_gguf) -> None:
    path = write_gguf(keys={"tokenizer.ggml.tokens": [f"token{index}" for index in range(100_000)]})
    start = time.process_time()
    assert len(GgufFile.open(path).metadata["tokenizer.ggml.tokens"]) == 100_000
    assert time.process_time() - start < 1
