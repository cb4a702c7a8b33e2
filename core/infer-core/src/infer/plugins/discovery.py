"""Which plugins are installed, from entry points and `infer-plugin.json` files. No plugin code runs.

`discover()` also checks contract versions and requirements (`check`), so a record's state is

    compatible   it can run here
    found        it can, if the device has the compute capability that it requires (known at selection)
    failed       it cannot; `reason` says why and what to do
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from infer.config.values import nearest
from infer.plugins.catalog import first_party, install_hint
from infer.plugins.check import Machine, contract_problem, requires_problem, shape_problem
from infer.plugins.installed import GROUP_PREFIX, Installed, InstalledEntry, normalized, read_installed
from infer.plugins.wording import joined
from infer_api.errors import PluginError
from infer_api.manifest import MANIFEST_FILE, SCHEMA

if TYPE_CHECKING:
    from infer.config.sections import PluginsConfig

__all__ = ["PluginIndex", "PluginRecord", "discover"]

State = Literal["found", "compatible", "failed"]
_NO_KIND = ("hooks", "catalog")
"""Groups `infer.*` that hold no manifests."""
_DISABLED = "it is disabled by plugins.disabled"
_CORE = __name__.partition(".")[0]


@dataclass(frozen=True)
class PluginRecord:
    """One plugin of one distribution. `data` is its entry of infer-plugin.json ({} when that cannot be read).

    `reason` says why a record is failed, and may carry a warning in any other state.
    """

    kind: str
    name: str
    distribution: str
    version: str
    package: str
    data: Mapping[str, Any] = field(default_factory=dict, hash=False, repr=False)
    state: State = "found"
    reason: str = ""

    @property
    def summary(self) -> str:
        return str(self.data.get("summary", ""))

    @property
    def priority(self) -> int:
        return int(self.data.get("priority", 0))

    @property
    def implementation(self) -> str:
        """Import path "package.module:Attribute"."""
        return str(self.data.get("implementation", ""))

    @property
    def supports(self) -> Mapping[str, Any]:
        return self.data.get("supports") or {}

    @property
    def requires(self) -> Mapping[str, Any]:
        return self.data.get("requires") or {}

    @property
    def roles(self) -> tuple[str, ...]:
        return tuple(self.data.get("roles", ()))

    @property
    def options_schema(self) -> dict[str, Any] | None:
        """JSON schema of the plugin's options, or None when it has none."""
        return self.data.get("options")

    @property
    def options_class(self) -> str | None:
        """Import path "module:Class" of the options, or None."""
        return self.data.get("options_class")

    @property
    def qualified(self) -> str:
        """The name that is unique whatever else is installed: "distribution/name"."""
        return f"{self.distribution}/{self.name}"


@dataclass(frozen=True)
class _Policy:
    prefer: Mapping[str, str] = field(default_factory=dict)
    listed: frozenset[str] = frozenset()


class PluginIndex:
    """Everything that was discovered. Immutable; `with_policy` gives another one."""

    def __init__(
        self, records: Iterable[PluginRecord], installed: Installed | None = None, *, policy: _Policy | None = None
    ) -> None:
        self._records = tuple(sorted(records, key=lambda each: (each.kind, each.name, each.distribution)))
        self.installed = installed or Installed(versions={}, entries=())
        """The snapshot that the records come from; also holds the entry points of hooks and catalogs."""
        self._policy = policy or _Policy()

    @classmethod
    def discover(cls, paths: Sequence[str | os.PathLike[str]] | None = None) -> PluginIndex:
        """Read all distributions on `paths` (default: sys.path) and check each plugin. Never raises for a bad one."""
        installed = read_installed(paths)
        machine = Machine(installed.versions)
        reader = _ManifestReader(installed)
        groups = (entry for entry in installed.entries if entry.group.removeprefix(GROUP_PREFIX) not in _NO_KIND)
        return cls((_checked(reader.record(entry), entry, machine) for entry in groups), installed)

    def with_policy(
        self,
        *,
        prefer: Mapping[str, str] | None = None,
        disabled: Iterable[str] = (),
        listed: Iterable[str] = (),
        on_incompatible: Literal["skip", "error"] = "skip",
    ) -> PluginIndex:
        """The same plugins under the user's `plugins.*` options.

        `prefer` maps "kind:name" to the distribution that wins a clash. `disabled` and `listed` name plugins as
        "distribution", "kind:name" or "distribution/name"; listed third parties may be taken by `auto`. Raises
        PluginError when a plugin cannot run here, is not disabled, and `on_incompatible` is "error".
        """
        off = _words(disabled)
        bad = [each for each in self._records if each.state == "failed" and not _named(each, off)]
        if bad and on_incompatible == "error":
            reasons = "; ".join(f"{each.kind} plugin {each.qualified!r}: {each.reason}" for each in bad)
            raise PluginError(f"{reasons}. Repair, uninstall or disable it, or set plugins.on_incompatible to skip")
        records = (replace(r, state="failed", reason=_DISABLED) if _named(r, off) else r for r in self._records)
        policy = _Policy({key: normalized(value) for key, value in (prefer or {}).items()}, _words(listed))
        return PluginIndex(records, self.installed, policy=policy)

    def under(self, rules: PluginsConfig) -> PluginIndex:
        """`with_policy` of the configuration's group `plugins`. Doing it twice is fine."""
        return self.with_policy(
            prefer=rules.prefer, disabled=rules.disabled, listed=rules.listed, on_incompatible=rules.on_incompatible
        )

    def records(self, kind: str | None = None) -> tuple[PluginRecord, ...]:
        """Records of one kind, or all, in order of kind, name and distribution."""
        return tuple(each for each in self._records if kind is None or each.kind == kind)

    def kinds(self) -> tuple[str, ...]:
        """Kinds that have at least one plugin."""
        return tuple(dict.fromkeys(each.kind for each in self._records))

    def distributions(self) -> dict[str, str]:
        """Version by name, of every distribution that offers a plugin."""
        return {each.distribution: each.version for each in sorted(self._records, key=lambda each: each.distribution)}

    def get(self, kind: str, name: str) -> PluginRecord:
        """The plugin called `name`, or "distribution/name".

        Raises PluginError when nobody has that name, two distributions have it and `plugins.prefer` does not
        decide, or the plugin has failed (with its reason).
        """
        owner, _, bare = name.rpartition("/")
        named = [each for each in self.records(kind) if each.name == bare]
        found = [each for each in named if not owner or each.distribution == normalized(owner)]
        if not found:
            raise PluginError(self._unknown(kind, name, owner))
        record = found[0] if len(found) == 1 else self._preferred(kind, bare, found)
        if record.state == "failed":
            raise PluginError(f"{kind} plugin {name!r} of {record.distribution} cannot be used: {record.reason}")
        return record

    def is_preferred(self, record: PluginRecord) -> bool:
        """Whether `plugins.prefer` lets this record stand for its name (true when it says nothing of the name)."""
        return self._policy.prefer.get(f"{record.kind}:{record.name}", record.distribution) == record.distribution

    def is_first_party(self, record: PluginRecord) -> bool:
        """Whether our own catalog lists the distribution. False for all when no such catalog is installed."""
        return bool(self._ours) and (record.package == _CORE or record.distribution in self._ours)

    def is_third_party(self, record: PluginRecord) -> bool:
        """Whether our own catalog is installed and does not list the distribution. Without one nobody can be told."""
        return bool(self._ours) and not self.is_first_party(record)

    def is_listed(self, record: PluginRecord) -> bool:
        """Whether `plugins.listed` names the plugin or its distribution."""
        return _named(record, self._policy.listed)

    @cached_property
    def _ours(self) -> frozenset[str]:
        return first_party(self.installed)

    def _preferred(self, kind: str, name: str, found: Sequence[PluginRecord]) -> PluginRecord:
        usable = [each for each in found if each.reason != _DISABLED]
        if len(usable) == 1:
            return usable[0]
        owners = [each.distribution for each in usable or found]
        wanted = self._policy.prefer.get(f"{kind}:{name}")
        for each in usable or found:
            if each.distribution == wanted:
                return each
        wrong = f" (plugins.prefer says {wanted!r}, which does not offer it)" if wanted else ""
        raise PluginError(
            f"{kind} plugin {name!r} is offered by both {' and '.join(owners)}{wrong}; uninstall one, or set "
            f"plugins.prefer = {{'{kind}:{name}': '{owners[0]}'}}, or say '{owners[0]}/{name}'"
        )

    def _unknown(self, kind: str, name: str, owner: str) -> str:
        records = self.records(kind)
        names = [each.qualified if owner else each.name for each in records]
        hint = nearest(name, names) or install_hint(kind, name, self.installed)
        return f"no {kind} plugin is called {name!r} (installed: {joined(names)}).{hint}"


def discover(*, paths: Sequence[str | os.PathLike[str]] | None = None) -> PluginIndex:
    """Short for `PluginIndex.discover(paths)`."""
    return PluginIndex.discover(paths)


def _words(words: Iterable[str]) -> frozenset[str]:
    words = tuple(words)
    return frozenset(words) | frozenset(map(normalized, words))  # a distribution may be spelled with "_"


def _named(record: PluginRecord, words: frozenset[str]) -> bool:
    return not words.isdisjoint((f"{record.kind}:{record.name}", record.distribution, record.qualified))


def _checked(record: PluginRecord, entry: InstalledEntry, machine: Machine) -> PluginRecord:
    """The record with its state: what it requires is looked at only where its manifest could be read."""
    problem = record.reason
    if record.state != "failed":
        problem = contract_problem(record.kind, record.data["api"], record.distribution)
        problem = problem or requires_problem(record.requires, machine)
    state: State = "failed" if problem else "found" if record.requires.get("compute_capability") else "compatible"
    return replace(record, state=state, reason="; ".join(filter(None, (problem, entry.note))))


class _ManifestReader:
    """Reads each package's infer-plugin.json once."""

    def __init__(self, installed: Installed) -> None:
        self._installed = installed
        self._files: dict[str, tuple[list[Any], str]] = {}

    def record(self, entry: InstalledEntry) -> PluginRecord:
        """The record of one entry point, failed with a reason where its manifest does not do."""
        kind, package = entry.group.removeprefix(GROUP_PREFIX), entry.package
        blank = PluginRecord(kind, entry.name, entry.distribution, entry.version, package)
        if package not in self._files:
            self._files[package] = self._read(package)
        plugins, problem = self._files[package]
        if problem:
            return replace(blank, state="failed", reason=problem)
        data, problem = _entry_data(entry, kind, plugins)
        return replace(blank, data=data, state="failed" if problem else "found", reason=problem)

    def _read(self, package: str) -> tuple[list[Any], str]:
        rewrite = f"write it with: python -m infer_api.manifest {package}"
        try:
            file = json.loads(self._installed.read_file(package, MANIFEST_FILE))
        except OSError as error:
            return [], f"{MANIFEST_FILE} of package {package} is missing ({error}); {rewrite}"
        except (ValueError, RecursionError) as error:
            return [], f"{MANIFEST_FILE} of package {package} cannot be read ({error}); {rewrite}"
        schema = file.get("schema") if isinstance(file, dict) else None
        if isinstance(schema, int) and schema > SCHEMA:
            return [], f"{MANIFEST_FILE} of {package} has schema {schema}, newer than {SCHEMA}; upgrade infer-api"
        if schema != SCHEMA or not isinstance(file.get("plugins"), list):
            return [], f"{MANIFEST_FILE} of {package} has schema {schema!r}, expected {SCHEMA}; {rewrite}"
        return file["plugins"], ""


def _entry_data(entry: InstalledEntry, kind: str, plugins: list[Any]) -> tuple[Mapping[str, Any], str]:
    """The plugin that an entry point means, and what is wrong with it ("" when nothing is)."""
    rewrite = f"write {MANIFEST_FILE} with: python -m infer_api.manifest {entry.package}"
    same = [each for each in plugins if isinstance(each, dict) and each.get("attribute") == entry.attribute]
    if not same:
        return {}, f"{MANIFEST_FILE} knows nothing of {entry.value!r}; {rewrite}"
    data = same[0]
    problem = shape_problem(data)
    if problem:
        return {}, f"{MANIFEST_FILE} is damaged: {problem}; {rewrite}"
    if (data["kind"], data["name"]) != (kind, entry.name):
        said = f"{data['kind']} plugin {data['name']!r}"
        return {}, f"entry point {entry.name!r} of group {entry.group} means {said}; they must agree. If so, {rewrite}"
    return data, ""
