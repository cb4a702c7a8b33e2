"""`infer plugins list|show`: what is installed, from manifests alone."""

from __future__ import annotations

import json
from typing import Any

from infer.cli.commands import Invocation
from infer.cli.help import option_spelling
from infer.cli.layout import columns, facts, paragraph, terminal_width
from infer.config.schema import plugin_options, read_schema
from infer.config.values import nearest
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ConfigError

__all__ = ["find_plugins", "run"]


def run(invocation: Invocation) -> int:
    """Entry of the command. Raises ConfigError for a plugin that is not installed."""
    name, as_json = invocation.arguments["name"], invocation.option("json")
    if invocation.arguments["subcommand"] == "list":
        if name is not None:
            raise ConfigError(f"infer plugins list takes no name; infer plugins show {name} shows one plugin")
        records = list(invocation.index.records())
        print(_json(records) if as_json else "\n".join(_list_lines(records)))
        return 0
    if name is None:
        raise ConfigError("infer plugins show needs NAME: a name, kind:name or distribution/name")
    records = find_plugins(name, invocation.index)
    print(_json(records) if as_json else "\n\n".join("\n".join(_show_lines(record)) for record in records))
    return 0


def find_plugins(name: str, index: PluginIndex) -> list[PluginRecord]:
    """Plugins called "name", "kind:name", "distribution/name" or by their distribution. Raises ConfigError for none."""
    known: dict[str, list[PluginRecord]] = {}
    for record in index.records():
        for word in (record.name, f"{record.kind}:{record.name}", record.qualified, record.distribution):
            if record not in known.setdefault(word, []):
                known[word].append(record)
    if name not in known:
        raise ConfigError(
            f"no plugin {name!r} is installed.{nearest(name, list(known)) or ' infer plugins list shows all.'}"
        )
    return known[name]


def _json(records: list[PluginRecord]) -> str:
    return json.dumps([_plain(record) for record in records], indent=1, ensure_ascii=False)


def _plain(record: PluginRecord) -> dict[str, Any]:
    return {
        "kind": record.kind,
        "name": record.name,
        "distribution": record.distribution,
        "version": record.version,
        "package": record.package,
        "state": record.state,
        "reason": record.reason,
        **{key: value for key, value in record.data.items() if key not in ("kind", "name")},
    }


def _list_lines(records: list[PluginRecord]) -> list[str]:
    if not records:
        return ["no plugin is installed"]
    width = terminal_width()
    lines: list[str] = []
    for kind in dict.fromkeys(record.kind for record in records):
        rows = [(_title(record), _line(record)) for record in records if record.kind == kind]
        lines += [*([""] if lines else []), kind, *columns(rows, width)]
    return lines


def _title(record: PluginRecord) -> str:
    return f"{record.name} ({record.distribution} {record.version})"


def _line(record: PluginRecord) -> str:
    if record.state == "failed":
        return f"FAILED: {record.reason}"
    return f"{record.summary} [{record.reason}]" if record.reason else record.summary


def _show_lines(record: PluginRecord) -> list[str]:
    width = terminal_width()
    group = read_schema().find_kind(record.kind)
    rows = [
        ("distribution", f"{record.distribution} {record.version} (package {record.package})"),
        ("state", record.state + (f": {record.reason}" if record.reason else "")),
        ("priority", str(record.priority)),
        ("roles", ", ".join(record.roles)),
        ("implementation", record.implementation),
        ("supports", facts(record.supports)),
        ("requires", facts(record.requires)),
    ]
    lines = [f"{record.kind}:{record.name}", *paragraph(record.summary, 2, width)]
    lines += columns([(word, text) for word, text in rows if text], width)
    options = plugin_options(f"{group.name}.{record.name}" if group else "", record.options_schema)
    if options:
        lines += ["  options"]
        words = [(option_spelling(one, one.all_flags), one.doc) for one in options]
        lines += columns(words, width, indent=4)
    return lines
