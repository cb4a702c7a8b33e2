"""Conformance of checkpoint loaders.

class TestMine(LoaderConformance):
    loader = "mine"

    def checkpoint(self, folder):
        values = {"a.weight": torch.randn(4, 32)}
        return write_mine(folder / "model.mine", values), values
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from infer_api.errors import ModelError, NotSliceable
from infer_api.loaders import Checkpoint
from infer_api.manifest import LoaderPlugin
from infer_testkit.plugin import PluginConformance, find_manifest, load_implementation, make_options

__all__ = ["LoaderConformance"]


class LoaderConformance(PluginConformance):
    """Fill in `loader` and `checkpoint`."""

    kind = "loaders"
    loader: ClassVar[str]
    """Name of the installed plugin."""

    def plugin_name(self) -> str:
        return self.loader

    def checkpoint(self, folder: Path) -> tuple[Path, Mapping[str, Tensor]]:
        """Write a checkpoint into `folder`: the path to open, and the float32 values of every tensor in it.

        At least one tensor is a matrix.
        """
        raise NotImplementedError

    def open(self, path: Path) -> Checkpoint:
        """Open `path` the way core does."""
        manifest = find_manifest(self.kind, self.loader)
        checkpoint: Checkpoint = load_implementation(manifest)(path, make_options(manifest))
        return checkpoint

    @pytest.fixture
    def written(self, tmp_path: Path) -> tuple[Checkpoint, Path, Mapping[str, Tensor]]:
        """A checkpoint, open, with its path and values."""
        path, values = self.checkpoint(tmp_path)
        return self.open(path), path, values

    def test_the_dialect_is_that_of_the_manifest(self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]) -> None:
        checkpoint = written[0]
        manifest = find_manifest(self.kind, self.loader)
        assert isinstance(manifest, LoaderPlugin)
        assert checkpoint.dialect() == manifest.supports.dialect == checkpoint.config().dialect

    def test_the_configuration_names_its_file_and_all_tensors(
        self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]
    ) -> None:
        checkpoint, path, values = written
        config = checkpoint.config()
        assert path.name in config.where
        assert config.architecture
        assert config.tensors == set(values)

    def test_every_tensor_has_shape_format_and_size(
        self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]
    ) -> None:
        checkpoint, _, values = written
        infos = {info.name: info for info in checkpoint.tensors()}
        assert {name: info.shape for name, info in infos.items()} == {n: tuple(v.shape) for n, v in values.items()}
        assert all(info.num_bytes > 0 and info.format for info in infos.values())

    def test_read_gives_the_stored_values(self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]) -> None:
        checkpoint, _, values = written
        for name, expected in values.items():
            stored = checkpoint.read(name)
            dense = stored.dense(torch.float32)
            assert stored.shape == tuple(expected.shape)
            assert dense.is_contiguous()
            torch.testing.assert_close(dense, expected, rtol=1e-6, atol=1e-6)

    def test_rows_can_be_taken_in_any_order(
        self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]], rng: torch.Generator
    ) -> None:
        checkpoint, _, values = written
        for name, expected in self._matrices(values):
            order = torch.randperm(len(expected), generator=rng)
            taken = checkpoint.read(name).take_rows(order)
            assert taken.shape == tuple(expected.shape)
            torch.testing.assert_close(taken.dense(torch.float32), expected[order], rtol=1e-6, atol=1e-6)

    @pytest.mark.parametrize("axis", [0, 1])
    def test_narrow_cuts_or_says_where_it_could(
        self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]], axis: int
    ) -> None:
        checkpoint, _, values = written
        for name, expected in self._matrices(values):
            size = expected.shape[axis]
            try:
                part = checkpoint.read(name).narrow(axis, 1, size - 1)
                start, length = 1, size - 1
            except NotSliceable as error:
                start, length = 0, size // error.multiple * error.multiple
                part = checkpoint.read(name).narrow(axis, start, length)
            torch.testing.assert_close(
                part.dense(torch.float32), expected.narrow(axis, start, length), rtol=1e-6, atol=1e-6
            )

    def test_an_unknown_tensor_is_refused_by_name(self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]) -> None:
        with pytest.raises(ModelError, match=r"no\.such\.tensor"):
            written[0].read("no.such.tensor")

    def test_a_missing_path_is_one_clear_error(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="nowhere"):
            self.open(tmp_path / "nowhere")

    @pytest.mark.parametrize("kept", [0.5, 0.98])
    def test_a_truncated_file_is_refused_when_it_is_opened(self, tmp_path: Path, kept: float) -> None:
        path, _ = self.checkpoint(tmp_path)
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        largest = max(files, key=lambda each: each.stat().st_size)
        data = largest.read_bytes()
        largest.write_bytes(data[: int(len(data) * kept)])
        with pytest.raises(ModelError, match=largest.name.replace(".", r"\.")):
            self.open(path)

    def test_close_may_be_called_twice(self, written: tuple[Checkpoint, Path, Mapping[str, Tensor]]) -> None:
        written[0].close()
        written[0].close()

    def _matrices(self, values: Mapping[str, Tensor]) -> list[tuple[str, Tensor]]:
        found = [(name, value) for name, value in values.items() if value.dim() == 2]
        assert found, "checkpoint() has to write at least one matrix"
        return found
