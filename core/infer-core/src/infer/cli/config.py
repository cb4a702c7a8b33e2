"""`infer config show|schema`: the effective configuration with sources, and a JSON schema for configuration files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from infer.cli.commands import Invocation
from infer.config.load import Effective
from infer.config.schema import Group, Option
from infer.config.table import OptionTable

__all__ = ["effective_rows", "file_schema", "run"]

HIDDEN = "(hidden)"


def run(invocation: Invocation) -> int:
    """Entry of the command. Raises ConfigError."""
    if invocation.arguments["subcommand"] == "schema":
        print(json.dumps(file_schema(invocation.table), indent=1, ensure_ascii=False))
        return 0
    rows = effective_rows(invocation.effective(), invocation.table)
    if invocation.option("json"):
        print(json.dumps({path: {"value": value, "source": source} for path, value, source in rows}, indent=1))
        return 0
    lines = [(f"{path} = {_shown(value)}", source) for path, value, source in rows]
    left = max(len(line) for line, _ in lines if len(line) <= 60)
    print("\n".join(f"{line:<{left}}  # {source}" for line, source in lines))
    return 0


def effective_rows(effective: Effective, table: OptionTable) -> list[tuple[str, Any, str]]:
    """(path, value as plain data, source) of every option; secrets are hidden. Plugin options only where given."""
    groups = effective.config.model_dump(mode="json")
    rows = []
    for path, option in table.by_path.items():
        if path in table.plugin_of:
            if path not in effective.given:
                continue
            value = effective.given[path].value
        else:
            group, _, name = path.partition(".")
            value = groups[group][name]
        rows.append((path, _masked(option, value), effective.source(path)))
    return rows


def _masked(option: Option, value: Any) -> Any:
    return HIDDEN if option.secret and value else value


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def file_schema(table: OptionTable) -> dict[str, Any]:
    """JSON schema (2020-12) of a `--config` file, with the options of the plugins installed here."""
    defs: dict[str, Any] = {}
    properties = {group.name: _group_schema(group, table, defs) for group in table.schema.groups}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "infer configuration",
        "type": "object",
        "additionalProperties": False,
        "properties": properties,
        "$defs": defs,
    }


def _group_schema(group: Group, table: OptionTable, defs: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = {
        option.name: {**_accepting_sizes(option.type), "description": option.doc, "default": option.default}
        for option in group.options
    }
    for record in table.installed.records(group.kind) if group.kind else ():
        if record.options_schema is not None:
            # Two plugins may use one name in their $defs: each gets its own prefix.
            prefix = f"{group.name}.{record.name}."
            text = json.dumps(record.options_schema).replace('"#/$defs/', f'"#/$defs/{prefix}')
            own = json.loads(text)
            defs |= {prefix + name: value for name, value in own.pop("$defs", {}).items()}
            properties[record.name] = own
    return {"type": "object", "description": group.doc, "additionalProperties": False, "properties": properties}


def _accepting_sizes(type_: Mapping[str, Any]) -> dict[str, Any]:
    """Byte sizes may also be text such as "2GiB"; JSON schema has to be told."""
    if type_.get("format") == "bytes":
        return {"anyOf": [{key: value for key, value in type_.items() if key != "format"}, {"type": "string"}]}
    if "anyOf" in type_:
        return {**type_, "anyOf": [_accepting_sizes(part) for part in type_["anyOf"]]}
    return dict(type_)
