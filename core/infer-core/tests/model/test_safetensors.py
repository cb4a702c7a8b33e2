"""Folders with missing shards, stale indexes, cut files and stray files (case B65)."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from infer.model.safetensors import INDEX, SINGLE, DenseTensor, SafetensorsCheckpoint
from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


def write_config(folder: Path, **values: Any) -> None:
    (folder / "config.json").write_text(json.dumps({"architectures": ["X"], **values}))


def write_single(folder: Path) -> dict[str, torch.Tensor]:
    tensors = {"a.weight": torch.arange(12.0).view(3, 4), "b.weight": torch.ones(5, dtype=torch.bfloat16)}
    write_config(folder)
    save_file(tensors, folder / SINGLE)
    return tensors


def write_shards(folder: Path, **index: str) -> dict[str, torch.Tensor]:
    first, second = {"a": torch.ones(2, 2), "b": torch.zeros(3)}, {"c": torch.full((4,), 2.0)}
    write_config(folder)
    save_file(first, folder / SHARDS[0])
    save_file(second, folder / SHARDS[1])
    weight_map = {"a": SHARDS[0], "b": SHARDS[0], "c": SHARDS[1], **index}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return first | second


def test_one_file_is_listed_and_read(tmp_path: Path) -> None:
    tensors = write_single(tmp_path)
    checkpoint = SafetensorsCheckpoint(tmp_path, None)
    assert checkpoint.dialect() == "hf"
    assert sorted(checkpoint.tensors(), key=lambda info: info.name) == [
        TensorInfo("a.weight", (3, 4), "dense.float32", 48),
        TensorInfo("b.weight", (5,), "dense.bfloat16", 10),
    ]
    stored = checkpoint.read("a.weight")
    assert torch.equal(stored.dense(torch.float32), tensors["a.weight"])
    assert checkpoint.read("b.weight").format == "dense.bfloat16"
    checkpoint.close()
    assert torch.equal(stored.dense(torch.float32), tensors["a.weight"])


def test_shards_are_read_as_one_checkpoint(tmp_path: Path) -> None:
    tensors = write_shards(tmp_path)
    checkpoint = SafetensorsCheckpoint(tmp_path, None)
    assert {info.name for info in checkpoint.tensors()} == {"a", "b", "c"}
    for name, values in tensors.items():
        assert torch.equal(checkpoint.read(name).dense(torch.float32), values)


def test_the_configuration_knows_its_file_and_tensors(tmp_path: Path) -> None:
    write_shards(tmp_path)
    config = SafetensorsCheckpoint(tmp_path, None).config()
    assert (config.architecture, config.dialect) == ("X", "hf")
    assert config.where == str(tmp_path / "config.json")
    assert config.tensors == {"a", "b", "c"}


def test_a_missing_architecture_names_file_and_key(tmp_path: Path) -> None:
    write_single(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "known"}')
    with pytest.raises(ModelError, match=r"config\.json: the key 'architectures' is missing"):
        _ = SafetensorsCheckpoint(tmp_path, None).config().architecture


@pytest.mark.parametrize("damage", [None, "{", "[]"])
def test_a_missing_or_broken_config_is_an_error_naming_it(tmp_path: Path, damage: str | None) -> None:
    write_single(tmp_path)
    (tmp_path / "config.json").unlink()
    if damage is not None:
        (tmp_path / "config.json").write_text(damage)
    with pytest.raises(ModelError, match=r"config\.json: "):
        SafetensorsCheckpoint(tmp_path, None)


def test_a_tensor_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    write_single(tmp_path)
    with pytest.raises(ModelError, match="there is no tensor 'z' in this checkpoint"):
        SafetensorsCheckpoint(tmp_path, None).read("z")


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / SHARDS[1]).unlink()
    with pytest.raises(ModelError, match=rf"names 2 files, and 1 of them cannot be found: {SHARDS[1]}"):
        SafetensorsCheckpoint(tmp_path, None)


@pytest.mark.parametrize("stray", [SINGLE, "other.safetensors"])
def test_a_stray_file_is_ignored_with_a_warning(tmp_path: Path, stray: str, caplog: pytest.LogCaptureFixture) -> None:
    write_shards(tmp_path)
    save_file({"a": torch.full((2, 2), 9.0), "z": torch.ones(1)}, tmp_path / stray)
    with caplog.at_level(logging.WARNING):
        checkpoint = SafetensorsCheckpoint(tmp_path, None)
    assert f"ignoring {stray}, which is not part" in caplog.text
    assert {info.name for info in checkpoint.tensors()} == {"a", "b", "c"}
    assert torch.equal(checkpoint.read("a").dense(torch.float32), torch.ones(2, 2))


def test_a_stale_index_is_an_error_with_tensor_and_file(tmp_path: Path) -> None:
    write_shards(tmp_path, old=SHARDS[1], older=SHARDS[0])
    with pytest.raises(ModelError, match=rf"2 of 5 tensors are not in the files .*old \(in {SHARDS[1]}\)"):
        SafetensorsCheckpoint(tmp_path, None)


def test_a_tensor_that_the_index_forgot_is_listed_nevertheless(tmp_path: Path) -> None:
    write_shards(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": SHARDS[0], "c": SHARDS[1]}}))
    assert {info.name for info in SafetensorsCheckpoint(tmp_path, None).tensors()} == {"a", "b", "c"}


@pytest.mark.parametrize("index", ["{", "[]", "{}", '{"weight_map": {"a": 1}}', '{"weight_map": {}}'])
def test_a_broken_index_is_an_error_naming_it(tmp_path: Path, index: str) -> None:
    write_shards(tmp_path)
    (tmp_path / INDEX).write_text(index)
    with pytest.raises(ModelError, match=r"model\.safetensors\.index\.json: "):
        SafetensorsCheckpoint(tmp_path, None)


def test_a_folder_without_weights_says_what_it_holds(tmp_path: Path) -> None:
    write_config(tmp_path)
    with pytest.raises(ModelError, match="found no weight files at all"):
        SafetensorsCheckpoint(tmp_path, None)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"neither model\.safetensors nor .* is there; found pytorch_model\.bin"):
        SafetensorsCheckpoint(tmp_path, None)


def test_a_file_cut_in_its_data_says_how_long_it_should_be(tmp_path: Path) -> None:
    write_single(tmp_path)
    data = (tmp_path / SINGLE).read_bytes()
    (tmp_path / SINGLE).write_bytes(data[:-3])
    with pytest.raises(
        ModelError, match=rf"truncated: it should have {len(data)} bytes and ends after {len(data) - 3}"
    ):
        SafetensorsCheckpoint(tmp_path, None)


@pytest.mark.parametrize("length", [0, 5, 8, 20])
def test_a_file_cut_in_its_header_says_so(tmp_path: Path, length: int) -> None:
    write_single(tmp_path)
    (tmp_path / SINGLE).write_bytes((tmp_path / SINGLE).read_bytes()[:length])
    with pytest.raises(
        ModelError, match=rf"model\.safetensors: the file is truncated: {length} bytes, which end inside"
    ):
        SafetensorsCheckpoint(tmp_path, None)


@pytest.mark.parametrize("data", [b"<html> not weights </html>", (4).to_bytes(8, "little") + b"{]}}" + bytes(16)])
def test_another_kind_of_file_is_an_error_naming_it(tmp_path: Path, data: bytes) -> None:
    write_config(tmp_path)
    (tmp_path / SINGLE).write_bytes(data)
    with pytest.raises(ModelError, match=r"model\.safetensors: this is not a (usable )?safetensors file"):
        SafetensorsCheckpoint(tmp_path, None)


def test_the_tokenizer_is_that_of_the_folder(tmp_path: Path) -> None:
    write_single(tmp_path)
    write_config(tmp_path, eos_token_id=3)
    assert SafetensorsCheckpoint(tmp_path, None).tokenizer() is None
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [], "model": {"vocab": {}}}')
    source = SafetensorsCheckpoint(tmp_path, None).tokenizer()
    assert source is not None
    assert source.eos_ids == (3,)


def test_a_folder_with_a_tokenizer_alone_gives_that_and_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text('{"added_tokens": [], "model": {"vocab": {}}}')
    for eos_ids in ((), (3,)):
        checkpoint = SafetensorsCheckpoint(tmp_path, None)
        source = checkpoint.tokenizer()
        assert source is not None
        assert source.eos_ids == eos_ids
        assert list(checkpoint.tensors()) == []
        with pytest.raises(ModelError, match="holds a tokenizer, and no weight files at all"):
            checkpoint.config()
        write_config(tmp_path, eos_token_id=3)


def test_dense_tensor_is_sliced_by_logical_axes_and_copied_when_made_dense() -> None:
    values = torch.randn(6, 4)
    tensor = DenseTensor(values)
    assert (tensor.shape, tensor.format) == ((6, 4), "dense.float32")
    assert torch.equal(tensor.narrow(0, 1, 2).dense(torch.float32), values[1:3])
    assert torch.equal(tensor.narrow(1, 2, 2).dense(torch.float32), values[:, 2:])
    assert torch.equal(tensor.take_rows(torch.tensor([5, 0])).components()["weight"], values[[5, 0]])
    copy = tensor.narrow(1, 2, 2).dense(torch.float32)
    assert copy.is_contiguous()
    assert copy.data_ptr() != values[:, 2:].data_ptr()
    assert DenseTensor(values.bfloat16()).format == "dense.bfloat16"


@pytest.mark.parametrize("name", ["../outside.safetensors", "a/../../outside.safetensors", "/outside.safetensors"])
def test_an_index_that_points_out_of_its_folder_is_refused(tmp_path: Path, name: str) -> None:
    write_shards(tmp_path, c=name)
    with pytest.raises(ModelError, match=rf"{INDEX}: .*outside its folder: {name}"):
        SafetensorsCheckpoint(tmp_path, None)
