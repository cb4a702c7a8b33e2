"""The table of every option that can be given: core's own, and those of installed plugins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn, Protocol

from infer.config.schema import Option, Schema, option_flag, plugin_options
from infer.config.values import check_value, nearest, parse_text
from infer_api.errors import ConfigError

__all__ = ["Given", "Installed", "InstalledPlugin", "OptionTable", "parse_given"]


class InstalledPlugin(Protocol):
    """What configuration reads of one installed plugin; `infer.plugins.discovery.PluginRecord` is one."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def qualified(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def options_schema(self) -> Mapping[str, Any] | None: ...


class Installed(Protocol):
    """The installed plugins; `infer.plugins.discovery.PluginIndex` is one."""

    def records(self, kind: str | None = None) -> Iterable[InstalledPlugin]: ...


@dataclass(frozen=True)
class Given:
    """One value as the user gave it. `source` is the flag, the variable, or file:line."""

    option: Option
    value: Any
    source: str


def parse_given(option: Option, text: str, source: str) -> Given:
    """Parse a flag's or variable's text. Raises ConfigError naming the source and the value."""
    try:
        return Given(option, parse_text(text, option.type, option.defs), source)
    except ValueError as error:
        raise ConfigError(f"{source} {'is of the wrong form' if option.secret else error}") from None


class OptionTable:
    """Options by path, flag and environment name. Light: reads JSON only."""

    def __init__(self, schema: Schema, installed: Installed) -> None:
        self.schema = schema
        self.installed = installed
        self.plugin_of: dict[str, tuple[str, str, str]] = {}
        """Path of a plugin's option → (kind, plugin, option)."""
        self.by_path: dict[str, Option] = dict(schema.by_path)
        owners = {word: option.path for option in schema.options() for word in (*option.flags, *option.env)}
        for group in schema.groups:
            for record in installed.records(group.kind) if group.kind else ():
                for option in plugin_options(f"{group.name}.{record.name}", record.options_schema):
                    # A short spelling stays with whoever has it; the path form is always free.
                    flags = tuple(one for one in option.flags if owners.setdefault(one, option.path) == option.path)
                    env = tuple(one for one in option.env if owners.setdefault(one, option.path) == option.path)
                    self.by_path[option.path] = replace(option, flags=flags, env=env)
                    self.plugin_of[option.path] = (record.kind, record.name, option.name)

    @cached_property
    def by_flag(self) -> dict[str, Option]:
        return {flag: option for option in self.by_path.values() for flag in (*option.all_flags, *option.no_flags)}

    @cached_property
    def by_env(self) -> dict[str, Option]:
        return {name: option for option in self.by_path.values() for name in option.all_env}

    def holds(self, path: str) -> bool:
        """Whether `path` is a group, or an installed plugin under the group of its kind."""
        first, dot, rest = path.partition(".")
        group = self.schema.find_group(first)
        return group is not None and (not dot or bool(group.kind) and rest in self.names(group.kind or ""))

    def names(self, kind: str) -> list[str]:
        """Names of installed plugins of `kind`, sorted."""
        return sorted({record.name for record in self.installed.records(kind)})

    def refuse_path(self, path: str, source: str) -> NoReturn:
        """Raise the ConfigError for a path that no option has: names the plugin that is missing, or near misses."""
        first, _, rest = path.partition(".")
        group = self.schema.find_group(first)
        if group is None:
            short = next((option.path for option in self.by_path.values() if option_flag(path) in option.flags), None)
            known = [one.name for one in self.schema.groups]
            hint = f" Did you mean {short!r}?" if short else nearest(path, [*known, *self.by_path])
            raise ConfigError(f"{source}: unknown key {path!r}.{hint or ' Groups: ' + ', '.join(known)}")
        plugin, dot, _ = rest.partition(".")
        if group.kind and dot and plugin not in self.names(group.kind):
            raise ConfigError(f"{source}: {self.no_plugin(group.kind, plugin)}")
        raise ConfigError(f"{source}: unknown key {path!r}.{nearest(path, list(self.by_path))}")

    def no_plugin(self, kind: str, name: str) -> str:
        """The sentence for a plugin that is not installed."""
        names = self.names(kind)
        installed = ", ".join(names) or "none"
        return f"no {kind} plugin {name!r} is installed (installed: {installed}).{nearest(name, names)}"

    def check(self, given: Given) -> None:
        """Check a value against its schema, and a plugin's name against what is installed. Raises ConfigError."""
        path, value = given.option.path, given.value
        try:
            check_value(value, given.option.type, given.option.defs)
        except ValueError as error:
            fault = "is of the wrong form" if given.option.secret else error
            raise ConfigError(f"{path} (from {given.source}) {fault}") from None
        if given.option.secret and isinstance(value, list) and not value:
            raise ConfigError(f"{path} (from {given.source}) is empty; write a key, or leave it out to ask for none")
        group = self.schema.find_group(path.partition(".")[0])
        # The model group's name is a model, not a plugin.
        if path.endswith(".name") and path.count(".") == 1 and group and group.kind and group.name != "model":
            self._check_plugin(group.kind, value, given)

    def _check_plugin(self, kind: str, name: str, given: Given) -> None:
        if name == "auto":
            return
        where = f"{given.option.path} (from {given.source})"
        found = [one for one in self.installed.records(kind) if name in (one.name, one.qualified)]
        if not found:
            raise ConfigError(f"{where}: {self.no_plugin(kind, name)}")
        if all(record.state == "failed" for record in found):
            raise ConfigError(f"{where}: the {kind} plugin {name!r} cannot be used: {found[0].reason}")
