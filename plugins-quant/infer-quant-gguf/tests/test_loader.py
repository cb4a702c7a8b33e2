from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch

from infer_api.errors import ModelError
from infer_quant_gguf.loader import GgufCheckpoint


@pytest.fixture
def path(write_gguf, matrix) -> Path:
    keys = {"llama.block_count": 2, "llama.rope.freq_base": 5e5}
    return write_gguf(keys=keys, tensors={"token_embd.weight": (matrix(4, 32), "Q8_0"), "n": (matrix(1, 3)[0], "F32")})


def test_the_configuration_is_the_metadata_with_its_file(path: Path) -> None:
    config = GgufCheckpoint(path).config()
    assert config.architecture == "llama"
    assert config.require_int("llama.block_count") == 2
    assert config.where == str(path)
    assert config.tensors == {"token_embd.weight", "n"}


def test_tensors_are_listed_without_data(path: Path) -> None:
    found = [(info.name, info.shape, info.format, info.num_bytes) for info in GgufCheckpoint(path).tensors()]
    assert found == [("token_embd.weight", (4, 32), "gguf.q8_0", 136), ("n", (3,), "dense.float32", 12)]


def test_a_missing_tensor_is_named_with_the_nearest(path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tensor 'token_embd.weights'.*nearest is 'token_embd\.weight'"):
        GgufCheckpoint(path).read("token_embd.weights")


def test_a_missing_file_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.gguf: there is no such"):
        GgufCheckpoint(tmp_path / "nothing.gguf")


def test_a_tensor_outlives_the_closed_checkpoint(path: Path, matrix) -> None:
    checkpoint = GgufCheckpoint(path)
    tensor = checkpoint.read("n")
    checkpoint.close()
    del checkpoint
    gc.collect()
    assert torch.equal(tensor.dense(torch.float32), torch.from_numpy(matrix(1, 3)[0]))


def test_parts_of_a_split_checkpoint_read_as_one(write_gguf, matrix) -> None:
    for index in range(2):
        keys = {"split.no": ("uint16", index), "split.count": ("uint16", 2), "part.key": index}
        write_gguf(f"m-{index + 1:05d}-of-00002.gguf", keys, {f"t{index}": (matrix(2, 32), "Q4_0")})
        last = f"m-{index + 1:05d}-of-00002.gguf"
    folder = write_gguf().parent
    checkpoint = GgufCheckpoint(folder / last)
    assert checkpoint.config().require("part.key") == 0
    assert [checkpoint.read(name).shape for name in ("t0", "t1")] == [(2, 32), (2, 32)]


def test_a_file_without_tokenizer_has_none(path: Path) -> None:
    assert GgufCheckpoint(path).tokenizer() is None


def test_rope_factors_in_a_tensor_are_part_of_the_configuration(write_gguf) -> None:
    factors = torch.tensor([1.0, 1.5, 8.0]).numpy()
    path = write_gguf(keys={}, tensors={"rope_freqs.weight": (factors, "F32")})
    assert GgufCheckpoint(path).config().values["rope_freqs.weight"] == [1.0, 1.5, 8.0]
