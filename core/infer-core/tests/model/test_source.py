from __future__ import annotations

from pathlib import Path

import pytest

from infer.config.sections import LoadConfig
from infer.model.aliases import Alias, default_name
from infer.model.source import Formats, HubModel, Local, Wheel, ensure_model, find_cached, name_source, store_folder
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ModelError


@pytest.fixture
def index() -> PluginIndex:
    def loader(name: str, **supports: object) -> PluginRecord:
        return PluginRecord("loaders", name, "acme", "1", "acme", {"supports": supports}, "compatible")

    return PluginIndex([loader("one", suffixes=[".tiny"]), loader("many", contains=["config.json"])])


def test_a_folder_or_a_file_is_itself(tmp_path: Path, index: PluginIndex) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "other.q4.tiny").touch()
    assert name_source(str(tmp_path / "my-model"), index) == Local("my-model", tmp_path / "my-model")
    assert name_source(str(tmp_path / "other.q4.tiny"), index) == Local("other.q4", tmp_path / "other.q4.tiny")


def test_auto_is_the_default_alias(index: PluginIndex) -> None:
    source = name_source("auto", index)
    assert isinstance(source, Alias)
    assert source.name == default_name()
    assert name_source(default_name(), index) == source


def test_a_path_that_exists_wins_over_an_alias(
    tmp_path: Path, index: PluginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(default_name()).mkdir()
    assert isinstance(name_source(default_name(), index), Local)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("pypi:some-model", Wheel("some-model")),
        ("pypi:some_model==1.0.2", Wheel("some_model==1.0.2")),
        ("org/name", HubModel("org/name")),
        ("org/name-1.5B_x", HubModel("org/name-1.5B_x")),
        ("org/name/sub/file.tiny", HubModel("org/name", "sub/file.tiny")),
    ],
)
def test_packages_and_hub_ids_are_told_from_paths(name: str, source: object, index: PluginIndex) -> None:
    assert name_source(name, index) == source


@pytest.mark.parametrize(
    "name", ["./no-such", "~/no-such", "/no/such", "no-such.tiny", "dir/no-such.tiny", "nonsense", ""]
)
def test_a_name_that_is_nothing_is_refused(name: str, index: PluginIndex) -> None:
    with pytest.raises(ModelError, match="no such model") as caught:
        name_source(name, index)
    assert "\n" not in str(caught.value)


def test_near_misses_come_from_aliases_and_from_the_disk(
    tmp_path: Path, index: PluginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "weights.tiny").touch()
    with pytest.raises(ModelError, match=r"Did you mean .*weights\.tiny'"):
        name_source(str(tmp_path / "weigths.tiny"), index)
    with pytest.raises(ModelError, match=f"Did you mean '{default_name()}'"):
        name_source(default_name()[:-1], index)


@pytest.mark.parametrize("name", ["pypi:", "pypi:--index-url=x", "pypi:a>=1", "pypi:a; b", "pypi:../x"])
def test_only_a_plain_requirement_reaches_pip(name: str, index: PluginIndex) -> None:
    with pytest.raises(ModelError, match="names no package"):
        name_source(name, index)


def test_every_source_has_a_folder_of_its_own(tmp_path: Path) -> None:
    load = LoadConfig(home=str(tmp_path))
    sources = [Wheel("a"), Wheel("a==1"), HubModel("a/b"), HubModel("a/b", "c.tiny"), HubModel("a/b", "d/c.tiny")]
    folders = {store_folder(source, load) for source in sources}
    folders.add(store_folder(HubModel("a/b"), load.model_copy(update={"revision": "refs/pr/1"})))
    assert len(folders) == 6
    assert {folder.parent for folder in folders} == {tmp_path / "models"}


def test_the_cache_gives_a_folder_or_the_one_file_in_it(tmp_path: Path, index: PluginIndex) -> None:
    load, formats = LoadConfig(home=str(tmp_path)), Formats.of(index)
    folder = store_folder(Wheel("a"), load)
    assert find_cached(Wheel("a"), load, formats) is None
    folder.mkdir(parents=True)
    (folder / "x.tiny").touch()
    assert find_cached(Wheel("a"), load, formats) == Local("a", folder / "x.tiny")
    (folder / "config.json").touch()
    assert find_cached(Wheel("a"), load, formats) == Local("a", folder)


def test_what_is_there_is_not_fetched(tmp_path: Path, index: PluginIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    load = LoadConfig(home=str(tmp_path))
    folder = store_folder(Wheel("a"), load)
    folder.mkdir(parents=True)
    (folder / "x.tiny").touch()
    monkeypatch.setattr("infer.model.pull.fetch", lambda *_: pytest.fail("fetched again"))
    assert ensure_model("pypi:a", load, index).path == folder / "x.tiny"
    assert ensure_model(str(tmp_path), load, index).path == tmp_path


def test_formats_of_loaders_that_cannot_run_do_not_count(index: PluginIndex) -> None:
    broken = PluginRecord("loaders", "z", "acme", "1", "acme", {"supports": {"suffixes": [".z"]}}, "failed", "no")
    formats = Formats.of(PluginIndex([*index.records(), broken]))
    assert formats.is_file("A.TINY")
    assert not formats.is_file("a.z")
    assert not Formats((), ()).is_file("anything")
