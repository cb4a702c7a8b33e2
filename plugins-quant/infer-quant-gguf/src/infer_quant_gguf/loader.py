"""GGUF files as a checkpoint: configuration, tokenizer and tensors, from one file or the parts of a split one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import torch

from infer_api.errors import ModelError
from infer_api.loaders import TensorInfo
from infer_api.specs import CheckpointConfig
from infer_api.tokenizers import TokenizerSource
from infer_quant_gguf.format import GgufFile
from infer_quant_gguf.options import GgufLoaderOptions
from infer_quant_gguf.parts import open_parts
from infer_quant_gguf.stored import GgufTensor
from infer_quant_gguf.tokenizer import build_tokenizer

__all__ = ["GgufCheckpoint"]

SETTINGS = ("rope_freqs.weight",)
"""Small tensors that describe the model: a factor for each rope frequency, which GGUF has no metadata key for."""


class GgufCheckpoint:
    """An opened GGUF checkpoint. Only headers are read until `read(name)` hands out a mapped tensor.

    Raises ModelError (see `errors`) for every kind of damage that headers can show, and when `path` is no file.
    """

    def __init__(self, path: Path, options: GgufLoaderOptions | None = None) -> None:
        self._path = Path(path)
        self._options = options or GgufLoaderOptions()
        if not self._path.is_file():
            raise ModelError(f"{self._path}: there is no such GGUF file")
        self._parts = open_parts(self._path)
        self._owners: dict[str, GgufFile] = {name: part for part in self._parts for name in part.tensors}
        self._metadata = self._parts[0].metadata

    def dialect(self) -> str:
        """Keys and tensors follow the names that GGUF defines."""
        return "gguf"

    def config(self) -> CheckpointConfig:
        """All metadata keys as they stand in the file, and the values of tensors that are settings, by their name."""
        settings = {name: self.read(name).dense(torch.float32).tolist() for name in SETTINGS if name in self._owners}
        values = {**self._metadata, **settings}
        return CheckpointConfig(
            "gguf", str(self._path), values, frozenset(self._owners), architecture_key="general.architecture"
        )

    def tensors(self) -> Iterable[TensorInfo]:
        """Every tensor, in the order of the file."""
        for name, part in self._owners.items():
            entry = part.tensors[name]
            yield TensorInfo(name, entry.shape, entry.format.name, entry.num_bytes)

    def read(self, name: str) -> GgufTensor:
        """The tensor called `name`, mapped. Raises ModelError when the file has none of that name."""
        part = self._owners.get(name)
        if part is None:
            near = get_close_matches(name, self._owners, n=1)
            hint = f" The nearest is {near[0]!r}." if near else ""
            raise ModelError(f"{self._path}: there is no tensor {name!r}.{hint}")
        entry = part.tensors[name]
        return GgufTensor(name, entry.shape, entry.format, part.raw(name))

    def tokenizer(self) -> TokenizerSource | None:
        """The tokenizer in the metadata. Raises ModelError when it is of a kind that is not known."""
        return build_tokenizer(self._path, self._metadata, self._options.pre_tokenizer)

    def close(self) -> None:
        """Let go of the maps; a file stays mapped as long as a tensor that was read from it is alive."""
        self._parts, self._owners = [], {}
