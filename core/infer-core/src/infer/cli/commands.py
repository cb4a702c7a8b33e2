"""Every subcommand as data: core's own, and those that distributions add (kind `commands`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from infer.config.load import Effective, load_config
from infer.config.schema import Option, plugin_options
from infer.config.table import Given, OptionTable
from infer.config.values import nearest
from infer.plugins.catalog import install_hint
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ConfigError

__all__ = ["CONFIG_FILE", "CORE", "Command", "Invocation", "all_commands", "get_command"]


@dataclass(frozen=True)
class Command:
    """One subcommand. `run` is the import path of `run(invocation) -> int`; plugins have a `record` instead.

    `arguments` are (name, help) of positionals, "name?" is optional; `subcommands` are (name, help).
    """

    name: str
    summary: str
    run: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    subcommands: tuple[tuple[str, str], ...] = ()
    options: tuple[Option, ...] = ()
    takes_config: bool = True
    quiet: bool = False
    record: PluginRecord | None = field(default=None, compare=False)

    @property
    def usage(self) -> str:
        """Such as "infer pull NAME [flags]"."""
        words = [name.rstrip("?").upper() for name, _ in self.arguments]
        shown = [
            f"[{word}]" if name.endswith("?") else word for (name, _), word in zip(self.arguments, words, strict=True)
        ]
        subcommand = ["|".join(name for name, _ in self.subcommands)] if self.subcommands else []
        return " ".join(["infer", self.name, *subcommand, *shown, "[flags]"])


@dataclass(frozen=True)
class Invocation:
    """A command with the words that it was given. `options` holds the command's own ones that were said."""

    command: Command
    arguments: Mapping[str, Any]
    options: Mapping[str, Any]
    settings: tuple[Given, ...]
    config_file: Path | None
    table: OptionTable
    index: PluginIndex

    def option(self, name: str) -> Any:
        """Value of one of the command's own options: as said, else its default."""
        defaults = {option.name: option.default for option in self.command.options}
        return self.options.get(name, defaults[name])

    def effective(self) -> Effective:
        """The configuration for this command. Raises ConfigError."""
        return load_config(self.index, file=self.config_file, flags=self.settings, table=self.table)


CONFIG_FILE = Option("config", {"type": "string"}, doc="YAML file with options; environment and flags win over it.")
JSON = Option("json", {"type": "boolean"}, default=False, doc="Print JSON.")
MODEL = (("model?", "Model to use; the same as --model."),)

CORE = (
    Command("pull", "Fetch a model into the cache.", "infer.cli.pull:run", arguments=MODEL),
    Command(
        "explain",
        "Show what would be chosen for a model, and why everything else would not.",
        "infer.cli.explain:run",
        arguments=MODEL,
        options=(JSON,),
    ),
    Command(
        "plugins",
        "List installed plugins, or show one.",
        "infer.cli.plugins:run",
        arguments=(("name?", "For show: name, kind:name or distribution/name."),),
        subcommands=(("list", "One line each."), ("show", "Everything known of one plugin.")),
        options=(JSON,),
        takes_config=False,
    ),
    Command(
        "config",
        "Show the effective configuration and where each value comes from.",
        "infer.cli.config:run",
        subcommands=(("show", "Every value with its source."), ("schema", "JSON schema for configuration files.")),
        options=(JSON,),
    ),
    Command("env", "Versions and facts of this machine, for bug reports.", "infer.cli.env:run", options=(JSON,)),
    Command("version", "Print the version.", "infer.cli.env:run_version", takes_config=False),
)


def all_commands(index: PluginIndex) -> dict[str, Command]:
    """Commands by name: core's, then those of plugins, in order of name."""
    commands = {command.name: command for command in CORE}
    for record in index.records("commands"):
        commands.setdefault(record.name, _from_record(record))
    return commands


def get_command(name: str, index: PluginIndex) -> Command:
    """The command called `name`. Raises ConfigError with near misses, PluginError for one that is broken."""
    command = all_commands(index).get(name)
    if command is None:
        hint = nearest(name, list(all_commands(index))) or install_hint("commands", name, index.installed)
        raise ConfigError(f"no command is called {name!r}.{hint or ' infer --help lists them.'}")
    return _from_record(index.get("commands", name)) if command.record else command


def _from_record(record: PluginRecord) -> Command:
    supports = record.supports
    return Command(
        record.name,
        record.summary or record.reason,
        arguments=tuple((name, text) for name, text in supports.get("arguments", ())),
        subcommands=tuple((name, text) for name, text in supports.get("subcommands", ())),
        options=plugin_options("", record.options_schema),
        takes_config=bool(supports.get("takes_config", True)),
        quiet=bool(supports.get("quiet", False)),
        record=record,
    )
