"""The chosen plugins as plain data, handed to every process and loaded there.

Plugin code runs here for the first time. pydantic is not imported by this module: workers may lack it, and a
plugin without options needs none.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from importlib import import_module
from typing import Any

from infer.config.values import nearest
from infer.plugins.discovery import PluginRecord
from infer.plugins.installed import normalized
from infer.plugins.wording import config_path, joined
from infer_api.errors import ConfigError, InferError, PluginError

__all__ = ["PinnedPlugin", "PluginSet"]


@dataclass(frozen=True)
class PinnedPlugin:
    """One chosen plugin. `options` is what the user gave, as JSON values; defaults are the plugin's own."""

    kind: str
    name: str
    distribution: str
    version: str
    package: str
    implementation: str
    options_class: str | None = None
    options: dict[str, Any] = field(default_factory=dict, hash=False)
    request_class: str | None = None

    @property
    def title(self) -> str:
        """How messages call it."""
        return f"{self.kind} plugin {self.name!r} of {self.distribution} {self.version}"


@dataclass(frozen=True)
class PluginSet:
    """Pinned plugins, in order of kind, name and distribution. Picklable; `to_dict` is ready for msgpack or JSON."""

    entries: tuple[PinnedPlugin, ...] = ()
    timings: dict[str, float] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Seconds that the first import of each plugin took in this process, by "kind:name"."""

    def __post_init__(self) -> None:
        ordered = sorted(self.entries, key=lambda each: (each.kind, each.name, each.distribution))
        object.__setattr__(self, "entries", tuple(ordered))

    @classmethod
    def pin(
        cls, records: Iterable[PluginRecord], options_by: Callable[[str, str], Mapping[str, Any]] | None = None
    ) -> PluginSet:
        """Pin `records` with the raw options that `options_by(kind, name)` gives for each.

        Raises PluginError for a failed record, ConfigError for options that are no plain data.
        """
        return cls(tuple(_pinned(each, options_by(each.kind, each.name) if options_by else {}) for each in records))

    @property
    def digest(self) -> str:
        """16 hexadecimal digits that change with any name, version, import path or option."""
        text = json.dumps(self.to_dict()["entries"], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """The set as nested dicts and lists."""
        return {"entries": [asdict(each) for each in self.entries]}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PluginSet:
        """The inverse of `to_dict`."""
        return cls(tuple(PinnedPlugin(**each) for each in data["entries"]))

    def get(self, kind: str, name: str) -> PinnedPlugin:
        """The pinned plugin called `name`, or "distribution/name". Raises PluginError when it is not pinned."""
        owner, _, bare = name.rpartition("/")
        same = [each for each in self.entries if each.kind == kind and each.name == bare]
        for each in same:
            if not owner or each.distribution == normalized(owner):
                return each
        names = joined(each.name for each in self.entries if each.kind == kind)
        raise PluginError(f"no {kind} plugin called {name!r} is part of this plugin set (pinned: {names})")

    def load(self, kind: str, name: str) -> Any:
        """Import the implementation and return it without calling it. Raises PluginError naming the plugin at fault."""
        plugin = self.get(kind, name)
        started = time.perf_counter()
        found = _import(plugin, plugin.implementation)
        self.timings.setdefault(f"{kind}:{plugin.name}", time.perf_counter() - started)
        return found

    def options(self, kind: str, name: str) -> Any:
        """The plugin's validated options object, or None when it has no options.

        Raises ConfigError naming the option by its path in the configuration.
        """
        plugin = self.get(kind, name)
        if plugin.options_class is not None:
            return _validated(plugin, _import(plugin, plugin.options_class))
        if plugin.options:
            raise ConfigError(f"{plugin.title} has no options; remove {joined(_paths(plugin))}")
        return None

    def request_class(self, kind: str, name: str) -> Any:
        """The class of the parameters that one request may send to the plugin. Raises PluginError when it has none."""
        plugin = self.get(kind, name)
        if plugin.request_class is None:
            raise PluginError(f"{plugin.title} takes no parameters of requests; reinstall {plugin.distribution}")
        return _import(plugin, plugin.request_class)

    def make(self, kind: str, name: str, *arguments: Any) -> Any:
        """Build the plugin: `implementation(*arguments, options)`.

        Kinds whose implementation takes no options (tokenizers, commands) are built from what `load` returns.
        Raises ConfigError for wrong options, PluginError when its code cannot be imported or fails to build.
        """
        options = self.options(kind, name)
        implementation = self.load(kind, name)
        try:
            return implementation(*arguments, options)
        except InferError:
            raise
        except Exception as error:  # foreign code; the plugin is named
            raise PluginError(f"{self.get(kind, name).title} failed to start: {_said(error)}") from error


def _pinned(record: PluginRecord, options: Mapping[str, Any]) -> PinnedPlugin:
    if record.state == "failed":
        raise PluginError(f"{record.kind} plugin {record.qualified!r} cannot be used: {record.reason}")
    try:
        plain = json.loads(json.dumps(dict(options), allow_nan=False))
    except (TypeError, ValueError) as error:
        where = config_path(record.kind, record.name)
        raise ConfigError(f"options of {where} must be plain values: {error}") from error
    return PinnedPlugin(
        record.kind,
        record.name,
        record.distribution,
        record.version,
        record.package,
        record.implementation,
        record.options_class,
        plain,
        record.data.get("request_class"),
    )


def _import(plugin: PinnedPlugin, path: str) -> Any:
    module, _, attribute = path.partition(":")
    try:
        found: Any = import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # foreign code; the plugin is named
        raise PluginError(f"{plugin.title} failed while importing {path}: {_said(error)}") from error
    return found


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _paths(plugin: PinnedPlugin) -> Iterator[str]:
    return (f"{config_path(plugin.kind, plugin.name)}.{name}" for name in plugin.options)


def _validated(plugin: PinnedPlugin, options_class: Any) -> Any:
    try:
        # Lax JSON mode: options come from files and flags, where a tuple is written as a list.
        return options_class.model_validate_json(json.dumps(plugin.options))
    except ValueError as error:  # pydantic.ValidationError is one, and knows its errors
        if not hasattr(error, "errors"):
            raise
        known = list(options_class.model_fields)
        problems = "; ".join(_problem(plugin, each, known) for each in error.errors())
        raise ConfigError(problems) from error


def _problem(plugin: PinnedPlugin, error: Mapping[str, Any], known: list[str]) -> str:
    place = ".".join((config_path(plugin.kind, plugin.name), *map(str, error["loc"])))
    if error["type"] == "extra_forbidden" and len(error["loc"]) == 1:
        hint = nearest(str(error["loc"][0]), known)
        return f"{place}: {plugin.title} has no such option (options: {joined(known)}).{hint}"
    return f"{place}: {error['msg']}, found {error['input']!r}"
