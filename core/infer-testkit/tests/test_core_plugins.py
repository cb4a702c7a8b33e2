"""The plugins that core itself brings pass the kit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from safetensors.torch import load_file
from torch import Tensor

from infer_api.tokenizers import TokenizerSource
from infer_testkit.loader import LoaderConformance
from infer_testkit.quantization import QuantizationConformance
from infer_testkit.tiny_checkpoints import make_llama, make_tokenizer
from infer_testkit.tokenizer import TokenizerConformance


class TestDense(QuantizationConformance):
    method = "dense"


class TestSafetensors(LoaderConformance):
    loader = "safetensors"

    def checkpoint(self, folder: Path) -> tuple[Path, Mapping[str, Tensor]]:
        path = make_llama(folder / "model", tokenizer=False)
        return path, load_file(path / "model.safetensors")


class TestShardedSafetensorsInBfloat16(LoaderConformance):
    loader = "safetensors"

    def checkpoint(self, folder: Path) -> tuple[Path, Mapping[str, Tensor]]:
        path = make_llama(folder / "model", shards=3, dtype=torch.bfloat16, tokenizer=False)
        files = sorted(path.glob("*.safetensors"))
        assert len(files) > 1
        return path, {name: value.float() for file in files for name, value in load_file(file).items()}


@cache
def tiny_tokenizer() -> str:
    with TemporaryDirectory() as folder:
        return (make_tokenizer(Path(folder)) / "tokenizer.json").read_text(encoding="utf-8")


class TestJson(TokenizerConformance):
    tokenizer = "json"

    def source(self) -> TokenizerSource:
        return TokenizerSource(
            "tokenizer.json", tiny_tokenizer(), where="a tiny tokenizer.json", bos_id=0, eos_ids=(1,)
        )
