from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ModelError
from infer_api.sources import FetchRequest, ModelFormats
from infer_source_pypi.source import PypiSource

FORMATS = ModelFormats((".tiny",), ("config.json",))
MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


def fetch(spec: str | Mapping[str, Any], folder: Path) -> list[tuple[int, int]]:
    """What was announced: (bytes to download, room needed)."""
    told: list[tuple[int, int]] = []
    PypiSource(None).fetch(FetchRequest("m", spec, FORMATS), folder, lambda *sizes: told.append(sizes))
    return told


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def part(wheel: Path, member: str, **changes: Any) -> dict[str, Any]:
    data = wheel.read_bytes()
    name = wheel.name.partition("-")[0]
    pinned = {"requirement": f"{name}==1.0", "wheel_sha256": hashlib.sha256(data).hexdigest(), "wheel_bytes": len(data)}
    return {**pinned, "member": member, **changes}


def test_a_pinned_wheel_is_unpacked_under_its_member_s_name(make_wheel: MakeWheel, folder: Path) -> None:
    wheel = make_wheel("one", {"one/Model.q4.tiny": b"weights", "one/__init__.py": b""})
    told = fetch({"num_bytes": 7, "parts": [part(wheel, "one/Model.q4.*")]}, folder)
    assert contents(folder) == {"Model.q4.tiny": b"weights"}
    size = wheel.stat().st_size
    assert told == [(size, 7 + size)]


def test_parts_are_joined_in_their_order(make_wheel: MakeWheel, folder: Path) -> None:
    parts = [part(make_wheel(f"p{n}", {f"p{n}/x.part{n}": b"ab" * n}), "*.part?") for n in (1, 2)]
    fetch({"num_bytes": 6, "file": "whole.tiny", "parts": parts}, folder)
    assert contents(folder) == {"whole.tiny": b"ababab"}


def test_a_wheel_with_a_wrong_digest_is_refused(make_wheel: MakeWheel, folder: Path) -> None:
    wrong = part(make_wheel("one", {"one/x.tiny": b"weights"}), "one/*.tiny", wheel_sha256="0" * 64)
    with pytest.raises(ModelError, match="one==1.0 is not what was expected: its SHA-256 is"):
        fetch({"num_bytes": 7, "parts": [wrong]}, folder)


def test_a_wheel_without_the_pinned_member_is_refused(make_wheel: MakeWheel, folder: Path) -> None:
    wheel = make_wheel("one", {"one/x.tiny": b"weights"})
    with pytest.raises(ModelError, match=r"one==1.0 should hold one member \*.other, found 0"):
        fetch({"num_bytes": 7, "parts": [part(wheel, "*.other")]}, folder)


def test_a_package_with_one_model_file_gives_that_file(make_wheel: MakeWheel, folder: Path) -> None:
    wheel = make_wheel("one", {"one/data/x.tiny": b"weights", "one/__init__.py": b""})
    assert fetch("one", folder) == [(wheel.stat().st_size, 7)]
    assert contents(folder) == {"x.tiny": b"weights"}


def test_a_package_with_a_model_folder_gives_its_files(make_wheel: MakeWheel, folder: Path) -> None:
    make_wheel("one", {"one/__init__.py": b"", "one/m/config.json": b"{}", "one/m/w.safetensors": b"w"})
    fetch("one==1.0", folder)
    assert contents(folder) == {"config.json": b"{}", "w.safetensors": b"w"}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ({"one/__init__.py": b""}, r"holds no model \(looked for config.json, \*.tiny\)"),
        ({"one/a.tiny": b"", "one/b.tiny": b""}, r"holds 2 model files \(a.tiny, b.tiny\)"),
    ],
)
def test_a_package_without_exactly_one_model_is_refused(
    members: dict[str, bytes], words: str, make_wheel: MakeWheel, folder: Path
) -> None:
    make_wheel("one", members)
    with pytest.raises(ModelError, match=words):
        fetch("one", folder)


def test_a_member_cannot_leave_the_folder(make_wheel: MakeWheel, folder: Path) -> None:
    make_wheel("one", {"one/../../../evil.tiny": b"x"})
    fetch("one", folder)
    assert contents(folder) == {"evil.tiny": b"x"}


def test_what_the_disk_has_no_room_for_is_not_downloaded(make_wheel: MakeWheel, folder: Path) -> None:
    pinned = part(make_wheel("one", {"one/x.tiny": b"weights"}), "*.tiny")

    def refuse(download_bytes: int, room_bytes: int) -> None:
        raise ModelError("no room")

    request = FetchRequest("m", {"num_bytes": 7, "parts": [pinned]}, FORMATS)
    with pytest.raises(ModelError, match="no room"):
        PypiSource(None).fetch(request, folder, refuse)
    assert list(folder.iterdir()) == []
