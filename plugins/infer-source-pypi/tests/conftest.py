"""pip is real here; its index is a folder, so that no network is needed."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The empty folder that a source is given."""
    made = tmp_path / "part"
    made.mkdir()
    return made


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
