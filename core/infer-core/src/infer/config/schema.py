"""The options of `InferConfig` as plain data, read from `schema.json` with no import but json.

`python -m infer.config.schema --write` rewrites it from infer.config.sections; `--check` exits 1 when it is stale.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any

__all__ = ["Group", "Option", "Schema", "option_flag", "plugin_options", "read_schema", "schema_text"]

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


EXTRAS = ("flags", "env", "common", "secret")
NOT_TYPE = {"default", "description", "title", *EXTRAS}


def schema_text() -> str:
    """What `schema.json` should hold. Imports pydantic and the sections."""
    # By name: whoever reads the schema, a worker without pydantic among them, does not depend on the sections.
    full = import_module("infer.config.sections").InferConfig.model_json_schema()
    groups = []
    for name, place in full["properties"].items():
        if "$ref" not in place:
            continue  # plugin_options: no group of its own
        section = full["$defs"][place["$ref"].rpartition("/")[2]]
        options = [_entry(key, facts) for key, facts in section.get("properties", {}).items()]
        kind = {"kind": place["kind"]} if "kind" in place else {}
        groups.append({"name": name, **kind, "doc": section["description"], "options": options})
    return json.dumps({"groups": groups}, indent=1, ensure_ascii=False) + "\n"


def _entry(name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "doc": " ".join(facts.get("description", "").split()),
        "default": facts.get("default", {}),
        "type": {key: value for key, value in facts.items() if key not in NOT_TYPE},
        **{key: facts[key] for key in EXTRAS if facts.get(key)},
    }


def main(arguments: list[str]) -> int:
    """Entry of `python -m infer.config.schema --write | --check`."""
    if arguments not in (["--write"], ["--check"]):
        sys.stderr.write("usage: python -m infer.config.schema --write | --check\n")
        return 2
    text = schema_text()
    if FILE.exists() and FILE.read_text(encoding="utf-8") == text:
        return 0
    if arguments == ["--check"]:
        sys.stderr.write(f"{FILE} is stale; run python -m infer.config.schema --write\n")
        return 1
    FILE.write_text(text, encoding="utf-8")
    sys.stdout.write(f"{FILE}: written\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
