"""Entry points and versions of the installed distributions, and data files of their packages; nothing is imported.

The `*.dist-info` folders are read directly: importlib.metadata alone would take half of the 150 ms that
`infer plugins list` may cost, and its `entry_points()` reads METADATA as well. It still serves zip files.
Only `*.dist-info` counts; every current installer writes it, also for editable installs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
from typing import NamedTuple

__all__ = ["GROUP_PREFIX", "Installed", "InstalledEntry", "find_package", "normalized", "read_installed"]

GROUP_PREFIX = "infer."
_SUFFIX = ".dist-info"
_ENTRY_POINTS = "entry_points.txt"


class _Found(NamedTuple):
    """One metadata folder: normalized name, version, where it lies, when it was written, its entry_points.txt."""

    name: str
    version: str
    where: str
    written_ns: int
    entry_points: str


@dataclass(frozen=True)
class InstalledEntry:
    """One entry point of a group `infer.*`. `note` tells of another copy of the distribution that is ignored."""

    distribution: str
    version: str
    group: str
    name: str
    value: str
    note: str = ""

    @property
    def package(self) -> str:
        """Top-level package of the value "package.module:attribute"."""
        return self.value.partition(":")[0].partition(".")[0].strip()

    @property
    def attribute(self) -> str:
        """What follows the colon, without extras in brackets; "" when there is none."""
        return self.value.partition(":")[2].partition("[")[0].strip()


@dataclass(frozen=True)
class Installed:
    """A snapshot: versions by distribution, entry points of `infer.*`, and the `paths` searched (None = sys.path)."""

    versions: Mapping[str, str]
    entries: tuple[InstalledEntry, ...]
    paths: tuple[str, ...] | None = None

    def group(self, name: str) -> tuple[InstalledEntry, ...]:
        """Entry points of the group `infer.<name>`."""
        return tuple(entry for entry in self.entries if entry.group == GROUP_PREFIX + name)

    def read_file(self, package: str, filename: str) -> bytes:
        """Contents of a file that lies in the top-level `package`. Raises OSError when either is missing."""
        spec = find_package(package, self.paths)
        if spec is None:
            raise FileNotFoundError(f"package {package!r} is not importable")
        folders = list(spec.submodule_search_locations or ())
        if not folders:
            raise FileNotFoundError(f"{package!r} is a single module, not a package")
        path = os.path.join(folders[0], filename)
        get_data = getattr(spec.loader, "get_data", None)  # also reads from zip files
        if get_data is not None:
            return bytes(get_data(path))
        with open(path, "rb") as file:
            return file.read()


def normalized(distribution: str) -> str:
    """A distribution's name in the one spelling that we compare: lower case, with hyphens."""
    return distribution.lower().replace("_", "-").replace(".", "-")


def find_package(package: str, paths: Sequence[str] | None = None) -> ModuleSpec | None:
    """Spec of a top-level package or module on `paths` (None = wherever this process would import it from)."""
    if not package.isidentifier():
        return None
    try:
        return find_spec(package) if paths is None else PathFinder.find_spec(package, list(paths))
    except (ImportError, ValueError):  # ValueError: a module in sys.modules without a spec
        return None


def read_installed(paths: Sequence[str | os.PathLike[str]] | None = None) -> Installed:
    """Read every distribution on `paths` (default: sys.path). A distribution found twice counts once."""
    folders = [os.fspath(path) or os.curdir for path in (sys.path if paths is None else paths)]
    chosen: dict[str, _Found] = {}
    notes: dict[str, str] = {}
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        # The newest first: an interrupted upgrade leaves the older metadata beside the newer.
        for found in sorted(_read_folder(folder), key=lambda each: (-each.written_ns, each.where)):
            first = chosen.setdefault(found.name, found)
            if first is not found:
                notes[found.name] = (
                    f"another copy of {found.name} ({found.version or 'unknown version'}, in {found.where}) is ignored "
                    f"in favour of {first.version or 'the one'} in {first.where}; remove one of them"
                )
    entries = (entry for found in chosen.values() for entry in _entries(found, notes.get(found.name, "")))
    return Installed(
        versions={name: found.version for name, found in chosen.items()},
        entries=tuple(sorted(entries, key=lambda entry: (entry.group, entry.name, entry.distribution))),
        paths=None if paths is None else tuple(folders),
    )


def _read_folder(folder: str) -> Iterable[_Found]:
    try:
        with os.scandir(folder) as items:
            infos = (item for item in items if item.name.endswith(_SUFFIX) and os.path.isdir(item.path))  # no dead link
            found = [(item.name, item.path, item.stat().st_mtime_ns) for item in infos]
    except NotADirectoryError:
        return _read_archive(folder)
    except OSError:  # an entry of sys.path that does not exist, or may not be read, holds nothing for us
        return ()
    # pip renames what it is about to remove to "~ame": leftovers of an interrupted uninstall.
    return [_read_metadata(name, path, written) for name, path, written in found if not name.startswith("~")]


def _read_metadata(folder_name: str, path: str, written_ns: int) -> _Found:
    name, _, version = folder_name.removesuffix(_SUFFIX).partition("-")
    try:
        with open(os.path.join(path, _ENTRY_POINTS), encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError):  # most distributions have no entry points
        text = ""
    return _Found(normalized(name), version, path, written_ns, text)


def _read_archive(path: str) -> Iterator[_Found]:
    from importlib.metadata import distributions  # rare, and costly to import

    for found in distributions(path=[path]):
        yield _Found(normalized(found.name), found.version, path, 0, found.read_text(_ENTRY_POINTS) or "")


def _entries(found: _Found, note: str) -> Iterator[InstalledEntry]:
    """Parse entry_points.txt: `[group]` lines, then `name = value` lines; `#` and `;` start comments."""
    if GROUP_PREFIX not in found.entry_points:
        return
    group = ""
    for line in map(str.strip, found.entry_points.splitlines()):
        if line.startswith("[") and line.endswith("]"):
            group = line[1:-1].strip()
        elif group.startswith(GROUP_PREFIX) and "=" in line and line[0] not in "#;":
            name, _, value = line.partition("=")
            yield InstalledEntry(found.name, found.version, group, name.strip(), value.strip(), note)
