"""Kind `model_sources`: where models come from that are not on this machine yet.

Core decides by manifest data which source serves a name (`infer_api.manifest.SourceSupport`), keeps the cache, its
locks and its progress bar, and checks what arrived; a source only fetches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Protocol

from infer_api.errors import ModelError

__all__ = ["Expect", "FetchRequest", "ModelFormats", "ModelSource", "check_sha256"]

Expect = Callable[[int, int], None]
"""Called as (bytes to download, bytes that the disk must still have room for) as soon as both are known.

Gives the progress bar its end. Raises ModelError when there is too little space.
"""


@dataclass(frozen=True)
class ModelFormats:
    """Which files are models: file suffixes in lower case, and globs that a model folder holds, of all loaders."""

    suffixes: tuple[str, ...]
    contains: tuple[str, ...]

    def is_file(self, name: str) -> bool:
        """Whether a file of this name is a whole model."""
        return bool(self.suffixes) and name.lower().endswith(self.suffixes)

    def is_folder(self, names: Iterable[str]) -> bool:
        """Whether a folder that holds these file names is a model."""
        return any(fnmatch(name, pattern) for name in names for pattern in self.contains)

    def __str__(self) -> str:
        known = [*self.contains, *(f"*{suffix}" for suffix in self.suffixes)]
        return ", ".join(known) or "nothing: no loader is installed"


@dataclass(frozen=True)
class FetchRequest:
    """One model to fetch. `name` is what people call it.

    `spec` is what the user typed, without the source's prefix, or what an alias says; the latter may be any plain
    data that the source understands.
    """

    name: str
    spec: str | Mapping[str, Any]
    formats: ModelFormats


class ModelSource(Protocol):
    """Built by the manifest's `implementation(options)`, in the process that needs the model."""

    def fetch(self, request: FetchRequest, folder: Path, expect: Expect) -> None:
        """Put one model into the empty `folder`: one file, or the files of a model folder, and nothing else.

        One caller at a time per model. Everything is written below `folder`, whose growth is shown as progress, and
        which is removed when this raises. Raises ModelError, one line: no such model, no network, damaged data.
        """
        ...


def check_sha256(path: Path, wanted: str, what: str = "") -> None:
    """Raise ModelError naming `what` (default: the file) when the SHA-256 of `path` is not `wanted`, hexadecimal."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != wanted:
        title = what or path.name
        raise ModelError(f"{title} is not what was expected: its SHA-256 is {found}, not {wanted}; nothing was kept")
