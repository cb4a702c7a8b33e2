from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from infer.config.sections import InferConfig
from infer.model.source import Local, Remote, ensure_model, find_cached, known_formats, name_source, store_folder
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.installed import Installed, InstalledEntry
from infer_api.errors import ModelError, PluginError

SHOP = {"prefix": "shop:", "pattern": r"(?P<name>[a-z-]+)(==[0-9.]+)?", "usage": "shop:NAME"}
PATH = r"\w+/\w+(/.+)?"
BARN = {"prefix": "barn:", "pattern": PATH, "bare": PATH, "identity": ["revision"], "usage": "a/b"}


def record(kind: str, name: str, state: str = "compatible", reason: str = "", **supports: Any) -> PluginRecord:
    data = {"supports": supports, "priority": 50}
    return PluginRecord(kind, name, f"acme-{name}", "1", "acme", data, state, reason)  # type: ignore[arg-type]


@pytest.fixture
def index(tmp_path_factory: pytest.TempPathFactory) -> PluginIndex:
    """Two loaders, two sources, and a catalog with one alias, which is the default."""
    folder = tmp_path_factory.mktemp("catalog")
    (folder / "acme_catalog").mkdir()
    (folder / "acme_catalog" / "__init__.py").touch()
    alias = {"summary": "Small.", "source": "shop", "spec": {"pins": [1]}, "sha256": "ab"}
    data = {"default": "small-one", "aliases": {"small-one": alias}}
    (folder / "acme_catalog" / "aliases.json").write_text(json.dumps(data))
    missing = {"distribution": "acme-moon", "kind": "model_sources", "name": "moon"}
    (folder / "acme_catalog" / "catalog.json").write_text(json.dumps({"format": 1, "plugins": [missing]}))
    entry = InstalledEntry("acme", "1.0", "infer.catalog", "acme", "acme_catalog")
    records = [
        record("loaders", "one", suffixes=[".tiny"]),
        record("loaders", "many", contains=["config.json"]),
        record("model_sources", "shop", **SHOP),
        record("model_sources", "barn", **BARN),
    ]
    return PluginIndex(records, Installed({}, (entry,), (str(folder),)))


def config(name: str, home: Path | str = "~/.cache/infer", **options: Any) -> InferConfig:
    return InferConfig.model_validate({"model": {"name": name}, "load": {"home": str(home)}, **options})


def test_a_folder_or_a_file_is_itself(tmp_path: Path, index: PluginIndex) -> None:
    (tmp_path / "my-model").mkdir()
    (tmp_path / "other.q4.tiny").touch()
    assert name_source(config(str(tmp_path / "my-model")), index) == Local("my-model", tmp_path / "my-model")
    found = name_source(config(str(tmp_path / "other.q4.tiny")), index)
    assert found == Local("other.q4", tmp_path / "other.q4.tiny")


def test_auto_is_the_default_alias(index: PluginIndex) -> None:
    source = name_source(config("auto"), index)
    assert source == Remote("small-one", "shop", {"pins": [1]}, "small-one", "ab")
    assert name_source(config("small-one"), index) == source


def test_a_path_that_exists_wins_over_alias_and_source(
    tmp_path: Path, index: PluginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("small-one").mkdir()
    Path("org/name").mkdir(parents=True)
    assert isinstance(name_source(config("small-one"), index), Local)
    assert isinstance(name_source(config("org/name"), index), Local)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("shop:some-model", Remote("some-model", "acme-shop/shop", "some-model", "shop--some-model")),
        ("shop:some==1.2", Remote("some", "acme-shop/shop", "some==1.2", "shop--some==1.2")),
        ("org/name", Remote("org/name", "acme-barn/barn", "org/name", "barn--org--name")),
        ("barn:org/name", Remote("org/name", "acme-barn/barn", "org/name", "barn--org--name")),
        ("org/name/x.tiny", Remote("org/name/x.tiny", "acme-barn/barn", "org/name/x.tiny", "barn--org--name--x.tiny")),
    ],
)
def test_manifests_say_which_source_serves_a_name(name: str, found: Remote, index: PluginIndex) -> None:
    assert name_source(config(name), index) == found


def test_options_that_tell_models_apart_are_part_of_the_place_in_the_cache(index: PluginIndex) -> None:
    options = {"model_sources": {"barn": {"revision": "refs/pr/1", "token": "t"}}}
    source = name_source(config("org/name", plugin_options=options), index)
    assert isinstance(source, Remote)
    assert source.key == "barn--org--name@refs--pr--1"


def test_a_prefix_that_is_followed_by_no_name_says_how_to_write_it(index: PluginIndex) -> None:
    with pytest.raises(ModelError, match="'shop:a>=1' is no name that source 'shop' understands; write shop:NAME"):
        name_source(config("shop:a>=1"), index)


def test_of_two_sources_that_serve_a_name_the_configuration_chooses(index: PluginIndex) -> None:
    both = PluginIndex([*index.records(), record("model_sources", "silo", **{**BARN, "prefix": "silo:"})])
    with pytest.raises(PluginError, match=r"fit equally well, .*barn.* and .*silo.*--sources.name"):
        name_source(config("org/name"), both)
    source = name_source(config("org/name", sources={"name": "silo"}), both)
    assert isinstance(source, Remote)
    assert source.source == "acme-silo/silo"


def test_a_source_that_cannot_be_used_says_why(index: PluginIndex) -> None:
    moon = record("model_sources", "moon", "failed", "it needs the module moonbeam", **{**BARN, "prefix": "moon:"})
    with pytest.raises(PluginError, match="it needs the module moonbeam"):
        name_source(config("moon:org/name"), PluginIndex([*index.records(), moon]))


@pytest.mark.parametrize("name", ["./no-such", "~/no-such", "/no/such", "no-such.tiny", "nonsense", ""])
def test_a_name_that_is_nothing_is_refused(name: str, index: PluginIndex) -> None:
    with pytest.raises(ModelError, match="no such model") as caught:
        name_source(config(name), index)
    assert "\n" not in str(caught.value)


def test_near_misses_come_from_aliases_and_from_the_disk(tmp_path: Path, index: PluginIndex) -> None:
    (tmp_path / "weights.tiny").touch()
    with pytest.raises(ModelError, match=r"Did you mean .*weights\.tiny'"):
        name_source(config(str(tmp_path / "weigths.tiny")), index)
    with pytest.raises(ModelError, match="barn: a/b; shop: shop:NAME.*Did you mean 'small-one'"):
        name_source(config("smal-one"), index)


def test_a_prefix_of_a_source_that_is_not_installed_names_what_to_install(index: PluginIndex) -> None:
    with pytest.raises(ModelError, match="'moon' is offered by: pip install acme-moon"):
        name_source(config("moon:some-model"), index)


def test_the_cache_gives_a_folder_or_the_one_file_in_it(tmp_path: Path, index: PluginIndex) -> None:
    source, where, formats = Remote("a", "shop", "a", "shop--a"), config("shop:a", tmp_path), known_formats(index)
    folder = store_folder(source, where)
    assert folder == tmp_path / "models" / "shop--a"
    assert find_cached(source, where, formats) is None
    folder.mkdir(parents=True)
    (folder / "x.tiny").touch()
    assert find_cached(source, where, formats) == Local("a", folder / "x.tiny")
    (folder / "config.json").touch()
    assert find_cached(source, where, formats) == Local("a", folder)


def test_what_is_there_is_not_fetched(tmp_path: Path, index: PluginIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "models" / "shop--a"
    folder.mkdir(parents=True)
    (folder / "x.tiny").touch()
    monkeypatch.setattr("infer.model.pull.fetch", lambda *_: pytest.fail("fetched again"))
    assert ensure_model(config("shop:a", tmp_path), index).path == folder / "x.tiny"
    assert ensure_model(config(str(tmp_path), tmp_path), index).path == tmp_path


def test_a_fetched_alias_needs_no_source(tmp_path: Path, index: PluginIndex) -> None:
    folder = tmp_path / "models" / "small-one"
    folder.mkdir(parents=True)
    (folder / "x.tiny").touch()
    loaders_only = PluginIndex(index.records("loaders"), index.installed)
    assert ensure_model(config("auto", tmp_path), loaders_only) == Local("small-one", folder / "x.tiny")


def test_formats_of_loaders_that_cannot_run_do_not_count(index: PluginIndex) -> None:
    broken = record("loaders", "z", "failed", "no", suffixes=[".z"])
    formats = known_formats(PluginIndex([*index.records(), broken]))
    assert formats.is_file("A.TINY")
    assert not formats.is_file("a.z")
    assert formats.contains == ("config.json",)
