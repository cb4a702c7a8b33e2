"""Help texts, made of schema.json and the manifests of installed plugins; nothing else is read or imported."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from infer.cli.commands import CONFIG_FILE, Command, all_commands
from infer.cli.layout import columns, facts, paragraph, terminal_width
from infer.config.schema import Group, Option, Schema, plugin_options, read_schema
from infer.config.values import describe_type, nearest
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ConfigError

__all__ = ["help_text", "option_spelling"]


def help_text(command: Command | None, topic: str, index: PluginIndex, width: int | None = None) -> str:
    """The whole help page. `topic` is "", "all", a group's name, or a word to search for.

    Raises ConfigError when nothing matches the topic.
    """
    width = width or terminal_width()
    page = _Page(command, read_schema(), index, width)
    if command is None and not topic:
        lines = page.commands()
    elif not topic:
        lines = page.overview()
    elif command is not None and not command.takes_config:
        raise ConfigError(f"infer {command.name} takes no configuration; infer {command.name} --help shows all of it.")
    elif topic.lower() == "all":
        lines = [line for group in page.schema.groups for line in [*page.group(group), ""]]
    else:
        group = page.find_group(topic)
        lines = page.group(group) if group else page.search(topic)
    return "\n".join([*lines, "", *paragraph(page.hint(topic), 0, width)]) + "\n"


class _Page:
    """One run of help: what is shown, for which command, how wide."""

    def __init__(self, command: Command | None, schema: Schema, index: PluginIndex, width: int) -> None:
        self.command, self.schema, self.index, self.width = command, schema, index, width
        self.name = f"infer {command.name}" if command else "infer COMMAND"

    def hint(self, topic: str) -> str:
        if self.command is not None and not self.command.takes_config:
            return "infer --help lists all commands."
        more = f"{self.name} --help=GROUP shows a group, --help=all everything, --help=WORD what has to do with a word."
        strength = " Strength, low to high: --config FILE, INFER_* environment, flags."
        return more + strength if topic else more

    def commands(self) -> list[str]:
        rows = [(name, command.summary) for name, command in all_commands(self.index).items()]
        return ["usage: infer COMMAND [flags]", "", *columns(rows, self.width)]

    def overview(self) -> list[str]:
        command = self.command
        assert command is not None
        lines = [f"usage: {command.usage}", "", *paragraph(command.summary, 0, self.width)]
        rows = [*command.subcommands, *((name.rstrip("?").upper(), text) for name, text in command.arguments)]
        if rows:
            lines += ["", *columns(rows, self.width)]
        if command.options:
            lines += ["", "flags of this command", *self._short_rows(command.options)]
        if command.takes_config:
            taken = {flag for option in command.options for flag in option.all_flags}
            common = [one for one in self.schema.options() if one.common and not taken & set(one.all_flags[:1])]
            lines += ["", "common flags", *self._short_rows([CONFIG_FILE, *common])]
            lines += ["", "groups", *columns([(group.title, group.doc) for group in self.schema.groups], self.width)]
        return lines

    def _short_rows(self, options: Iterable[Option]) -> list[str]:
        return columns(
            [(option_spelling(option, option.all_flags[:1]), self._doc(option)) for option in options], self.width
        )

    def _doc(self, option: Option) -> str:
        """The option's text; for one that names a plugin, with the names there are."""
        group = self.schema.find_group(option.path.partition(".")[0])
        if option.name != "name" or group is None or group.kind is None or group.kind == "models":
            return option.doc or "(no description)"
        names = sorted({record.name for record in self.index.records(group.kind)})
        return f"{option.doc} One of: {', '.join(['auto', *names])}."

    def find_group(self, topic: str) -> Group | None:
        word = topic.lower().replace("-", "_").replace(" ", "_")
        return next((group for group in self.schema.groups if word in (group.name, group.kind)), None)

    def group(self, group: Group) -> list[str]:
        """The group's options, then the installed plugins of its kind with what they support and their options."""
        lines = paragraph(f"{group.title}: {group.doc}", 0, self.width)
        for option in group.options:
            lines += ["", *self._option(option)]
        if group.kind:
            records = self.index.records(group.kind)
            lines += ["", f"installed {group.kind} plugins" + ("" if records else ": none")]
            for record in records:
                lines += ["", *self._plugin(group, record)]
        return lines

    def _option(self, option: Option, indent: int = 2) -> list[str]:
        lines = [*paragraph(option_spelling(option, option.all_flags), indent, self.width)]
        lines += paragraph(self._doc(option), indent + 4, self.width)
        default = "" if option.required else f"default {_default(option)}, "
        where = f"{default}env {option.all_env[-1]}, YAML {option.path}"
        return [*lines, *paragraph(where, indent + 4, self.width)]

    def _plugin(self, group: Group, record: PluginRecord) -> list[str]:
        state = "" if record.state == "compatible" else f" [{record.state}]"
        head = f"{record.name} ({record.distribution} {record.version}, priority {record.priority}){state}"
        lines = paragraph(f"{head}: {record.summary}" if record.summary else head, 2, self.width)
        if record.reason:
            lines += paragraph(f"cannot be used: {record.reason}" if state else record.reason, 6, self.width)
        supported = facts(record.supports)
        if supported:
            lines += paragraph(f"supports: {supported}", 6, self.width)
        for option in plugin_options(f"{group.name}.{record.name}", record.options_schema):
            lines += self._option(option, 6)
        return lines

    def search(self, word: str) -> list[str]:
        """Everything whose name, flag or text has `word` in it."""
        lines: list[str] = []
        for group in self.schema.groups:
            plugins = self.index.records(group.kind) if group.kind else ()
            hits = [option for option in group.options if _mentions(option, word)]
            found = [line for option in hits for line in ["", *self._option(option)]]
            for record in plugins:
                own = plugin_options(f"{group.name}.{record.name}", record.options_schema)
                if _has(word, record.name, record.summary) or any(_mentions(option, word) for option in own):
                    found += ["", *self._plugin(group, record)]
            if found:
                lines += [*([""] if lines else []), *paragraph(f"{group.title}: {group.doc}", 0, self.width), *found]
        own_options = self.command.options if self.command else ()
        own_hits = [option for option in own_options if _mentions(option, word)]
        if own_hits:
            lines += [*([""] if lines else []), "flags of this command", *self._short_rows(own_hits)]
        if not lines:
            near = nearest(word, [group.name for group in self.schema.groups])
            raise ConfigError(f"help has nothing on {word!r}.{near or f' {self.name} --help lists the groups.'}")
        return lines


def option_spelling(option: Option, flags: Sequence[str]) -> str:
    """How an option is typed, such as "--port INT"."""
    if option.is_flag_pair:
        return ", ".join([*flags, "--no-" + flags[0].lstrip("-")])
    return f"{', '.join(flags)} {describe_type(option.type, option.defs).upper().replace(' | ', '|')}"


def _default(option: Option) -> str:
    if option.default is None or option.default in ([], {}, ""):
        return "unset"
    return option.default if isinstance(option.default, str) else json.dumps(option.default)


def _mentions(option: Option, word: str) -> bool:
    return _has(word, option.path, option.doc, *option.all_flags, *option.all_env)


def _has(word: str, *texts: str) -> bool:
    return any(word.lower() in text.lower() for text in texts)
