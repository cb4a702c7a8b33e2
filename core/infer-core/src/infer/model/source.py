"""What a model's name means: a folder, a file, an alias, 'pypi:NAME', or a hub id; and where it lies once fetched.

name ── names() ──► Local          a path of this machine
               └──► Alias          data of model/aliases.json
               └──► Wheel          pypi:NAME[==VERSION]
               └──► HubModel       org/name, or org/name/file
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from infer.config.values import nearest
from infer.model.aliases import Alias, default_name, read_aliases
from infer.plugins.discovery import PluginIndex
from infer_api.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from infer.config.sections import LoadConfig

__all__ = ["Formats", "HubModel", "Local", "Wheel", "ensure_model", "find_cached", "name_source", "store_folder"]

PYPI = "pypi:"
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9.!+_-]+)?")
HUB_ID = re.compile(r"([A-Za-z0-9][\w.-]*)/([A-Za-z0-9][\w.-]*)(?:/([\w./ -]+))?")


@dataclass(frozen=True)
class Local:
    """Model files on this machine. `name` is what people call it, `path` a folder or a file."""

    name: str
    path: Path


@dataclass(frozen=True)
class Wheel:
    """A package of the index that pip uses, with a model inside: "NAME" or "NAME==VERSION"."""

    requirement: str

    @property
    def name(self) -> str:
        return self.requirement.partition("==")[0]


@dataclass(frozen=True)
class HubModel:
    """A repository of the model hub; `file` picks one model file of several."""

    repo: str
    file: str | None = None

    @property
    def name(self) -> str:
        return self.repo if self.file is None else f"{self.repo}/{self.file}"


@dataclass(frozen=True)
class Formats:
    """Which files are models: file suffixes, and globs that a model folder holds, of all installed loaders."""

    suffixes: tuple[str, ...]
    contains: tuple[str, ...]

    @classmethod
    def of(cls, index: PluginIndex) -> Formats:
        usable = [record.supports for record in index.records("loaders") if record.state != "failed"]
        suffixes = {suffix.lower() for facts in usable for suffix in facts.get("suffixes", ())}
        return cls(
            tuple(sorted(suffixes)), tuple(sorted({one for facts in usable for one in facts.get("contains", ())}))
        )

    def is_file(self, name: str) -> bool:
        """Whether a file of this name is a whole model."""
        return bool(self.suffixes) and name.lower().endswith(self.suffixes)

    def is_folder(self, names: Iterable[str]) -> bool:
        """Whether a folder that holds these file names is a model."""
        return any(fnmatch(name, pattern) for name in names for pattern in self.contains)

    def __str__(self) -> str:
        return (
            ", ".join([*self.contains, *(f"*{suffix}" for suffix in self.suffixes)])
            or "nothing: no loader is installed"
        )


def name_source(name: str, index: PluginIndex) -> Local | Alias | Wheel | HubModel:
    """What `name` means; looks at the disk, never at the network.

    A path that exists wins over an alias, an alias over a hub id. Raises ModelError with near misses for what is none
    of them.
    """
    aliases = read_aliases(index)
    if name == "auto":
        return aliases[default_name()]
    if name.startswith(PYPI):
        requirement = name.removeprefix(PYPI).replace(" ", "")
        if not REQUIREMENT.fullmatch(requirement):
            raise ModelError(f"{name!r} names no package; write pypi:NAME or pypi:NAME==VERSION")
        return Wheel(requirement)
    path = Path(name).expanduser()
    if name and path.exists():  # Path("") is the current folder
        return Local(path.resolve().stem if path.is_file() else path.resolve().name, path)
    if name in aliases:
        return aliases[name]
    looks_local = name.startswith((".", "~", os.sep)) or Formats.of(index).is_file(name)
    hub = HUB_ID.fullmatch(name)
    if hub and not (looks_local and hub[3] is None):
        return HubModel(f"{hub[1]}/{hub[2]}", hub[3])
    raise ModelError(_no_such_model(name, path, aliases))


def _no_such_model(name: str, path: Path, aliases: Iterable[str]) -> str:
    try:
        around = [str(path.parent / entry.name) for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        around = []
    hint = nearest(name, [*aliases, *around])
    if path.parent != Path() and not path.parent.is_dir():
        return f"no such model {name!r}: there is no folder {str(path.parent)!r}.{hint}"
    known = ", ".join(sorted(aliases))
    return f"no such model {name!r}: no folder, file or alias is called that (aliases: {known}).{hint}"


def store_folder(source: Alias | Wheel | HubModel, load: LoadConfig) -> Path:
    """Folder in the cache that belongs to `source`; it exists only once everything in it is complete."""
    if isinstance(source, Alias):
        key = source.name
    elif isinstance(source, Wheel):
        key = f"pypi--{source.requirement}"
    else:
        revision = (f"@{load.revision}" if load.revision else "").replace("/", "--")
        key = f"hub--{source.name.replace('/', '--')}{revision}"
    return Path(load.home).expanduser() / "models" / key


def find_cached(source: Alias | Wheel | HubModel, load: LoadConfig, formats: Formats) -> Local | None:
    """The fetched model, or None when it has not been fetched."""
    folder = store_folder(source, load)
    if not folder.is_dir():
        return None
    files = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    if formats.is_folder(files):
        return Local(source.name, folder)
    models = [one for one in files if formats.is_file(one)]
    if len(models) == 1:
        return Local(source.name, folder / models[0])
    if len(files) == 1:  # no installed loader opens it: let the loaders say so, with their reasons
        return Local(source.name, folder / files[0])
    raise ModelError(f"{folder} holds no single model file; remove it and fetch the model again")


def ensure_model(name: str, load: LoadConfig, index: PluginIndex) -> Local:
    """The model called `name` on this machine, fetched first when it is not there.

    Raises ModelError, one line: no such model, no network, no space, a digest that does not match.
    """
    source = name_source(name, index)
    if isinstance(source, Local):
        return source
    formats = Formats.of(index)
    cached = find_cached(source, load, formats)
    if cached is not None:
        return cached
    from infer.model.pull import fetch

    fetch(source, load, formats)
    found = find_cached(source, load, formats)
    if found is None:
        raise ConfigError(
            f"{store_folder(source, load)} vanished after the model was fetched; is load.home being cleaned?"
        )
    return found
