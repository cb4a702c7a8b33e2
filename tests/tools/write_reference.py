"""Write the reference pages of the site from what the parts say of themselves.

    python tests/tools/write_reference.py            # write docs/reference/*.md
    python tests/tools/write_reference.py --check    # exit 1 when one is stale

The options come from the schema of `InferConfig`, the plugins from their manifests, and the command
line from what the installed `infer` prints.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infer.config.schema import Group, Option, plugin_options, read_schema
from members import ROOT, Member, find_members

__all__ = ["PAGES", "cli_page", "config_page", "main", "plugins_page"]

FOLDER = Path("docs/reference")
NOTE = "<!-- Written by `make docs`; edit the source that it is made from. -->"
COLUMNS = "100"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [f"| {' | '.join(header)} |", f"| {' | '.join('---' for _ in header)} |"]
    return [*lines, *(f"| {' | '.join(map(_cell, row))} |" for row in rows)]


def _code(items: Iterable[str]) -> str:
    return ", ".join(f"`{item}`" for item in items)


def _option_row(option: Option) -> tuple[str, str, str, str]:
    default = "" if option.secret else json.dumps(option.default, ensure_ascii=False)
    return (
        f"`{option.path}`",
        _code((*option.all_flags, *option.all_env)),
        f"`{default}`" if default else "",
        option.doc,
    )


def _option_table(options: Iterable[Option]) -> list[str]:
    return _table(("option", "flags and environment", "default", "what it does"), map(_option_row, options))


def _group_section(group: Group) -> list[str]:
    kind = [f"Options of `{group.kind}` plugins live here too, under the plugin's name."] if group.kind else []
    lines = [f"## {group.title}", "", " ".join([group.doc, *kind]), ""]
    return [*lines, *(_option_table(group.options) if group.options else ["This group has no options of its own."]), ""]


def config_page() -> str:
    """Every option of the configuration: path in a YAML file, flags, environment names, default, meaning."""
    head = [
        "# Configuration",
        "",
        NOTE,
        "",
        "Strength from low to high: a YAML file (`--config`), the environment, flags. `infer config show` prints the",
        "effective values and where each of them came from.",
        "",
    ]
    return "\n".join([*head, *(line for group in read_schema().groups for line in _group_section(group))])


def _facts(supports: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    for key, value in supports.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}, {name}", str(part)) for name, part in _facts(value))
        elif isinstance(value, list):
            if value:
                yield key.replace("_", " "), _code(str(item) or "(none named)" for item in value)
        elif value not in ("", None):
            yield key.replace("_", " "), f"`{value}`"


def _plugin_section(member: Member, plugin: Mapping[str, Any], prefix: str) -> list[str]:
    facts = [("distribution", f"`{member.name}`"), ("priority", f"`{plugin['priority']}`")]
    facts += _facts(plugin.get("supports") or {})
    lines = [
        f"### {plugin['kind']}: {plugin['name']}",
        "",
        plugin["summary"],
        "",
        *_table(("fact", "value"), facts),
        "",
    ]
    options = plugin_options(prefix, plugin.get("options"))
    return [*lines, *([*_option_table(options), ""] if options else [])]


def plugins_page(root: Path = ROOT) -> str:
    """Every plugin of this repository, by kind, with what it supports and its options."""
    schema = read_schema()
    by_kind: dict[str, list[str]] = {}
    for member in find_members(root):
        manifest = member.source / "infer-plugin.json"
        if not manifest.is_file():
            continue
        for plugin in json.loads(manifest.read_text(encoding="utf-8"))["plugins"]:
            group = schema.find_kind(plugin["kind"])
            prefix = f"{group.name}.{plugin['name']}" if group else ""
            by_kind.setdefault(plugin["kind"], []).extend(_plugin_section(member, plugin, prefix))
    head = [
        "# Plugins",
        "",
        NOTE,
        "",
        "`infer plugins list` shows what is installed; these are the ones made here.",
        "",
    ]
    return "\n".join([*head, *(line for kind in sorted(by_kind) for line in [f"## {kind}", "", *by_kind[kind]])])


def _printed(arguments: Sequence[str]) -> str:
    command = [str(Path(sys.executable).with_name("infer")), *arguments]
    environment = {**os.environ, "COLUMNS": COLUMNS, "NO_COLOR": "1", "TERM": "dumb"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def _command_names(overview: str) -> list[str]:
    """Commands in the overview: first words of the lines that are indented by two spaces (wrapped text has more)."""
    found = (re.match(r" {2}(\S+) ", line) for line in overview.splitlines())
    names = [match[1] for match in found if match]
    assert names, "`infer --help` lists no commands"
    return names


def cli_page() -> str:
    """What `infer --help` and the help of each command print."""
    overview = _printed(["--help"])
    lines = ["# Command line", "", NOTE, "", "```text", "$ infer --help", overview.rstrip(), "```", ""]
    for name in _command_names(overview):
        lines += [
            f"## infer {name}",
            "",
            "```text",
            f"$ infer {name} --help",
            _printed([name, "--help"]).rstrip(),
            "```",
            "",
        ]
    return "\n".join(lines)


PAGES = {"cli.md": cli_page, "config.md": config_page, "plugins.md": plugins_page}


def main(arguments: Sequence[str], root: Path = ROOT) -> int:
    """Write the pages below `root`, or with `--check` only compare them; returns the exit status."""
    stale = []
    for name, page in PAGES.items():
        path, text = root / FOLDER / name, page().rstrip("\n") + "\n"
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"{FOLDER / name}: written")
    if stale and "--check" in arguments:
        print(f"stale: {', '.join(stale)}; run make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
