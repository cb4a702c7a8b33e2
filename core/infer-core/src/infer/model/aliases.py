"""Short names of models, as data: the `aliases.json` beside each installed catalog.

    {"default": NAME, "aliases": {NAME: {"summary", "source", "spec", "sha256"?, "sampling"?}}}

`source` names the plugin that fetches the model, `spec` tells it which one, in the plugin's own terms. `sha256` pins
the file that the model consists of, `sampling` is what its authors recommend. An alias of any other shape, such as
one of a later release, cannot be used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infer.plugins.catalog import is_our_catalog
from infer.plugins.discovery import PluginIndex
from infer_api.errors import ModelError, PluginError

__all__ = ["Alias", "Aliases", "read_aliases"]

FILE = "aliases.json"


@dataclass(frozen=True)
class Alias:
    """A model by a short name. `problem` says why it cannot be used ("" = it can)."""

    name: str
    summary: str
    source: str
    spec: str | Mapping[str, Any]
    sha256: str = ""
    sampling: Mapping[str, float] = field(default_factory=dict)
    problem: str = ""


class _ByName(dict[str, Alias]):
    def __getitem__(self, name: str) -> Alias:
        if super().__getitem__(name).problem:
            raise ModelError(super().__getitem__(name).problem)
        return super().__getitem__(name)


@dataclass(frozen=True)
class Aliases:
    """All aliases by name (asking for a bad one raises ModelError), and which one "auto" stands for ("" = none)."""

    by_name: Mapping[str, Alias]
    default: str

    def get_default(self) -> Alias:
        """The default alias. Raises ModelError when no catalog names one, or it cannot be used."""
        if self.default not in self.by_name:
            raise ModelError("no catalog is installed that names a default model; name one: --model MODEL")
        return self.by_name[self.default]


def read_aliases(index: PluginIndex) -> Aliases:
    """Aliases of all catalogs; our own catalog's win. Raises PluginError when one is damaged."""
    aliases = _ByName()
    default = ""
    for entry in sorted(index.installed.group("catalog"), key=is_our_catalog):
        try:
            text = index.installed.read_file(entry.package, FILE)
        except OSError:  # a catalog need not have aliases
            continue
        try:
            data = json.loads(text)
            aliases.update({name: _alias(name, facts, entry.distribution) for name, facts in data["aliases"].items()})
            default = data.get("default") or default
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PluginError(f"{FILE} of {entry.distribution} cannot be read: {error!r}; reinstall it") from error
    return Aliases(aliases, default)


def _alias(name: str, facts: Any, distribution: str) -> Alias:
    kinds: dict[str, Any] = {"summary": str, "source": str, "spec": str | dict, "sha256": str, "sampling": dict}
    facts = {"sha256": "", "sampling": {}, **facts} if isinstance(facts, dict) else {}
    if facts.keys() == kinds.keys() and all(isinstance(facts[key], kind) for key, kind in kinds.items()):
        return Alias(name, **facts)
    unknown = ", ".join(sorted(facts.keys() - kinds.keys()))
    fault = f"unknown keys: {unknown}; upgrade infer-core" if unknown else f"it is damaged; reinstall {distribution}"
    return Alias(name, "", "", "", problem=f"the alias {name!r} of {distribution} cannot be used: {fault}")
