"""The options of `InferConfig` as plain data, read from `schema.json` with no import but json.

It is written from infer.config.sections by the repository's `make manifests`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

__all__ = ["FILE", "Group", "Option", "Schema", "option_flag", "plugin_options", "read_schema"]

FILE = Path(__file__).with_name("schema.json")


def option_flag(path: str) -> str:
    """The path form of a flag: "cache.block_tokens" → "--cache.block-tokens"."""
    return "--" + path.replace("_", "-")


@dataclass(frozen=True)
class Option:
    """One option. `type` is its JSON schema, `defs` what `$ref`s in it point to."""

    path: str
    type: Mapping[str, Any]
    default: Any = None
    doc: str = ""
    flags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    common: bool = False
    secret: bool = False
    required: bool = False
    defs: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Short flags first, then the path form."""
        return (*self.flags, option_flag(self.path))

    @property
    def all_env(self) -> tuple[str, ...]:
        """Environment names: the path form first, then well-known ones."""
        return ("INFER_" + self.path.replace(".", "__").replace("-", "_").upper(), *self.env)

    @cached_property
    def is_flag_pair(self) -> bool:
        """Whether the option is a plain yes or no, given as `--flag` or `--no-flag`."""
        kinds = {part.get("type") for part in self.type.get("anyOf", [self.type])} - {"null"}
        return kinds == {"boolean"}

    @property
    def no_flags(self) -> tuple[str, ...]:
        return tuple("--no-" + flag.lstrip("-") for flag in self.all_flags) if self.is_flag_pair else ()


@dataclass(frozen=True)
class Group:
    """One section. `kind` is the plugin kind whose options live under it, or None."""

    name: str
    doc: str
    options: tuple[Option, ...]
    kind: str | None = None

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True)
class Schema:
    """All groups, in the order in which they are shown."""

    groups: tuple[Group, ...]

    def options(self) -> Iterator[Option]:
        for group in self.groups:
            yield from group.options

    def find_group(self, name: str) -> Group | None:
        return next((group for group in self.groups if group.name == name), None)

    def find_kind(self, kind: str) -> Group | None:
        """The group under which options of plugins of `kind` live."""
        return next((group for group in self.groups if group.kind == kind), None)

    @cached_property
    def by_path(self) -> Mapping[str, Option]:
        return {option.path: option for option in self.options()}


def plugin_options(prefix: str, schema: Mapping[str, Any] | None) -> tuple[Option, ...]:
    """Options of a plugin from the JSON schema of its options class; `prefix` is "attention.NAME", say."""
    if schema is None:
        return ()
    required = schema.get("required", ())
    return tuple(
        Option(
            path=f"{prefix}.{name}" if prefix else name,
            type=facts,
            default=facts.get("default"),
            doc=" ".join(facts.get("description", "").split()),
            flags=tuple(facts.get("flags", ())),
            env=tuple(facts.get("env", ())),
            secret=bool(facts.get("secret")),
            required=name in required,
            defs=schema.get("$defs"),
        )
        for name, facts in schema.get("properties", {}).items()
    )


def read_schema() -> Schema:
    """Read `schema.json`."""
    data = json.loads(FILE.read_text(encoding="utf-8"))
    return Schema(tuple(_group(entry) for entry in data["groups"]))


def _group(entry: Mapping[str, Any]) -> Group:
    options = tuple(
        Option(
            path=f"{entry['name']}.{item['name']}",
            type=item["type"],
            default=item["default"],
            doc=item["doc"],
            flags=tuple(item.get("flags", ())),
            env=tuple(item.get("env", ())),
            common=item.get("common", False),
            secret=item.get("secret", False),
        )
        for item in entry["options"]
    )
    return Group(name=entry["name"], doc=entry["doc"], options=options, kind=entry.get("kind"))
