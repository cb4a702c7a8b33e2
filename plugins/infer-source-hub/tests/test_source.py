from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ModelError
from infer_api.sources import FetchRequest, ModelFormats
from infer_source_hub.options import HubOptions
from infer_source_hub.source import HubSource

FORMATS = ModelFormats((".tiny",), ("config.json",))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The empty folder that a source is given."""
    made = tmp_path / "part"
    made.mkdir()
    return made


def fetch(spec: Any, folder: Path, **options: str) -> list[tuple[int, int]]:
    """What was announced: (bytes to download, room needed)."""
    told: list[tuple[int, int]] = []
    HubSource(HubOptions(**options)).fetch(FetchRequest("m", spec, FORMATS), folder, lambda *sizes: told.append(sizes))
    return told


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_repository_with_a_model_folder_gives_what_loading_needs(hub: Any, folder: Path) -> None:
    told = fetch("org/folder", folder, endpoint=hub.endpoint)
    wanted = {name: hub.folder[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}
    assert contents(folder) == wanted
    total = sum(map(len, wanted.values()))
    assert told == [(total, total)]
    assert f"/org/folder/resolve/{hub.commit}/model.safetensors" in hub.paths
    assert not any("pytorch_model" in path for path in hub.paths)


def test_the_only_model_file_is_taken(hub: Any, folder: Path) -> None:
    fetch("org/one-file", folder, endpoint=hub.endpoint)
    assert contents(folder) == {"x.tiny": b"packed"}


def test_one_of_several_model_files_can_be_named_and_lies_at_the_top(hub: Any, folder: Path) -> None:
    fetch("org/many/sub/b.tiny", folder, endpoint=hub.endpoint)
    assert contents(folder) == {"b.tiny": b"bbb"}
    assert [path.name for path in folder.iterdir()] == ["b.tiny"]


def test_a_file_in_a_folder_of_its_own_name_is_no_problem(hub: Any, folder: Path) -> None:
    fetch("org/nested/x.tiny/x.tiny", folder, endpoint=hub.endpoint)
    assert contents(folder) == {"x.tiny": b"deep"}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("org/absent", "no such model: .* has no repository 'org/absent', or it is private"),
        ("org/gated", "org/gated is gated: accept its terms .*HF_TOKEN"),
        ("org/many", r"org/many holds 2 model files; choose one: org/many/FILE \(a.tiny, sub/b.tiny\)"),
        ("org/none", "org/none holds no model that an installed loader opens"),
        ("org/many/c.tiny", "org/many holds no file 'c.tiny'"),
        ("no-slash", "alias 'm' of a catalog is damaged"),
        ({"repo": "org/folder"}, "alias 'm' of a catalog is damaged"),
    ],
)
def test_what_cannot_be_fetched_ends_in_one_line(spec: Any, words: str, hub: Any, folder: Path) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        fetch(spec, folder, endpoint=hub.endpoint)
    assert "\n" not in str(caught.value)


def test_with_a_token_a_gated_repository_says_that_the_token_does_not_do(hub: Any, folder: Path) -> None:
    with pytest.raises(ModelError, match="then your token may not read it"):
        fetch("org/gated", folder, endpoint=hub.endpoint, token="t")


def test_a_revision_that_is_not_there_is_named(hub: Any, folder: Path) -> None:
    with pytest.raises(ModelError, match="org/folder has no revision 'no-such-branch'"):
        fetch("org/folder", folder, endpoint=hub.endpoint, revision="no-such-branch")


def test_a_hub_that_cannot_be_reached_is_no_network(folder: Path) -> None:
    with pytest.raises(ModelError, match=r"no network: http://127.0.0.1:9 could not be reached for org/folder"):
        fetch("org/folder", folder, endpoint="http://127.0.0.1:9")
