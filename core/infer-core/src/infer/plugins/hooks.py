"""Who else wants to know: pluggy hooks of the entry-point group `infer.hooks`.

The value of such an entry point is an object (or a class that needs no arguments) whose methods are marked
with `infer_api.hooks.hookimpl`. A hook never changes what the engine does: one that cannot be loaded or
raises is logged with its name, and all others still run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from importlib import import_module
from typing import Any

import pluggy

from infer.plugins.discovery import PluginIndex
from infer.plugins.installed import InstalledEntry
from infer_api.errors import InferError, PluginError
from infer_api.hooks import HOOK_PROJECT, InferHooks

__all__ = ["HookCaller"]

_log = logging.getLogger(__name__)


class HookCaller:
    """Loads hook plugins when built, and calls each on its own. `failures` maps a name to why it was left out."""

    def __init__(self, entries: Iterable[InstalledEntry] = ()) -> None:
        self._manager = pluggy.PluginManager(HOOK_PROJECT)
        self._manager.add_hookspecs(InferHooks)
        self.failures: dict[str, str] = {}
        for entry in entries:
            name = f"{entry.distribution}/{entry.name}"
            try:
                self.register(_load(entry), name)
            except Exception as error:  # noqa: BLE001 - foreign code; the plugin is named
                self.failures[name] = f"{type(error).__name__}: {error}"
                _log.error("hook plugin %s is left out: %s", name, self.failures[name], exc_info=_surprise(error))

    @classmethod
    def from_index(cls, index: PluginIndex, disabled: Iterable[str] = ()) -> HookCaller:
        """All installed hooks but the `disabled` ones ("name", "hooks:name", "distribution", "distribution/name")."""
        off = frozenset(disabled)
        return cls(
            entry
            for entry in index.installed.group("hooks")
            if off.isdisjoint(
                (entry.name, f"hooks:{entry.name}", entry.distribution, f"{entry.distribution}/{entry.name}")
            )
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the hook plugins in use, in the order in which they were registered."""
        return tuple(name for name, _ in self._manager.list_name_plugin())

    def register(self, plugin: object, name: str) -> None:
        """Add an object with hook implementations. Raises PluginError for one that the specifications do not know."""
        try:
            self._manager.register(plugin, name)
            self._manager.check_pending()
        except (pluggy.PluginValidationError, ValueError) as error:
            if self._manager.get_plugin(name) is plugin:
                self._manager.unregister(plugin)
            raise PluginError(f"hook plugin {name!r} is wrong: {error}") from error

    def call(self, hook: str, **facts: Any) -> None:
        """Tell every implementation of `hook`, the last registered first; each gets those of `facts` it asks for."""
        caller = getattr(self._manager.hook, hook, None)
        assert caller is not None, f"{hook} is not among the hook specifications"
        for implementation in reversed(caller.get_hookimpls()):
            try:
                implementation.function(*(facts[name] for name in implementation.argnames))
            except Exception as error:  # noqa: BLE001 - foreign code; the plugin is named
                name = implementation.plugin_name
                _log.error("%s of hook plugin %s failed: %r", hook, name, error, exc_info=_surprise(error))


def _surprise(error: Exception) -> Exception | None:
    """The error where its traceback tells more than its message; one of infer's says what to do."""
    return None if isinstance(error, InferError) else error


def _load(entry: InstalledEntry) -> object:
    found: Any = import_module(entry.value.partition(":")[0].strip())
    for part in filter(None, entry.attribute.split(".")):
        found = getattr(found, part)
    return found() if isinstance(found, type) else found
