from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from infer.config.sections import InferConfig
from infer.engine.plan import _Planner, _tokenizer_source
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ConfigError, PluginError
from infer_api.tokenizers import TokenizerSource
from infer_testkit.fakes.checkpoint import MemoryCheckpoint
from infer_testkit.fakes.tokenizer import byte_source

OWN = replace(byte_source(), generation={"temperature": 0.5})


class FolderCheckpoint:
    """Opens folders that hold a file called vocabulary; its text is the tokenizer's data."""

    closed: list[Path]

    def __init__(self, path: Path, options: Any) -> None:
        self._path = path

    def tokenizer(self) -> TokenizerSource | None:
        data = (self._path / "vocabulary").read_text()
        return TokenizerSource("bytes", data, str(self._path), eos_ids=(9,)) if data else None

    def close(self) -> None:
        type(self).closed.append(self._path)


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> PluginIndex:
    module = ModuleType("acme_folders")
    module.FolderCheckpoint = FolderCheckpoint  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_folders", module)
    FolderCheckpoint.closed = []
    data = {"implementation": "acme_folders:FolderCheckpoint", "supports": {"contains": ["vocabulary"]}}
    return PluginIndex([PluginRecord("loaders", "folders", "acme", "1", "acme_folders", data, "compatible")])


def source_of(index: PluginIndex, asked: Path | None, own: TokenizerSource | None = OWN) -> TokenizerSource | None:
    config = InferConfig().replace(model={"tokenizer": str(asked)} if asked else {})
    return _tokenizer_source(_Planner(config, index), MemoryCheckpoint({}, {}, tokenizer=own))  # type: ignore[arg-type]


def test_the_tokenizer_is_the_checkpoint_s_own_unless_another_is_asked_for(index: PluginIndex) -> None:
    assert source_of(index, None) is OWN


@pytest.mark.parametrize("name", ["", "vocabulary"])
def test_a_folder_or_a_file_in_it_gives_the_tokenizer(name: str, index: PluginIndex, tmp_path: Path) -> None:
    (tmp_path / "vocabulary").write_text("abc")
    source = source_of(index, tmp_path / name)
    assert source is not None
    assert (source.data, source.eos_ids) == ("abc", (9,))
    assert FolderCheckpoint.closed == [tmp_path]


def test_what_the_other_tokenizer_does_not_say_is_the_checkpoint_s(index: PluginIndex, tmp_path: Path) -> None:
    (tmp_path / "vocabulary").write_text("abc")
    source, alone = source_of(index, tmp_path), source_of(index, tmp_path, own=None)
    assert source is not None
    assert alone is not None
    assert (source.chat_templates, source.generation) == (OWN.chat_templates, OWN.generation)
    assert (alone.chat_templates, alone.generation) == ({}, {})


def test_a_tokenizer_that_is_not_there_is_named(index: PluginIndex, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--tokenizer .*/nowhere: there is no such file or folder"):
        source_of(index, tmp_path / "nowhere")
    with pytest.raises(PluginError, match="no installed loaders plugin fits"):
        source_of(index, tmp_path)
    (tmp_path / "vocabulary").write_text("")
    with pytest.raises(ConfigError, match="--tokenizer .*: it holds no tokenizer"):
        source_of(index, tmp_path)
