"""What a model's name means: a folder, a file, an alias, or a name that a source serves; and where it lies here.

name ── name_source() ──► Local     a path of this machine
                     └──► Remote    an alias of a catalog, or what the manifests of installed sources say they serve
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer.config.values import nearest
from infer.model.aliases import Alias, Aliases, read_aliases
from infer.plugins.catalog import install_hint
from infer.plugins.discovery import PluginIndex
from infer.plugins.select import fits_source, select
from infer_api.errors import ConfigError, ModelError
from infer_api.sources import ModelFormats

if TYPE_CHECKING:
    from infer.config.sections import InferConfig

__all__ = ["KIND", "Local", "Remote", "ensure_model", "find_cached", "known_formats", "name_source", "store_folder"]

KIND = "model_sources"


@dataclass(frozen=True)
class Local:
    """Model files on this machine. `name` is what people call it, `path` a folder or a file."""

    name: str
    path: Path


@dataclass(frozen=True)
class Remote:
    """A model that the plugin `source` can fetch; `spec` says to it which one, `key` names its folder in the cache.

    `sha256` is that of the one file it consists of, or "" when nobody vouches for it.
    """

    name: str
    source: str
    spec: str | Mapping[str, Any]
    key: str
    sha256: str = ""
    sampling: Mapping[str, float] = field(default_factory=dict)


def known_formats(index: PluginIndex) -> ModelFormats:
    """Which files are models, as all installed loaders say that can run here."""
    usable = [record.supports for record in index.records("loaders") if record.state != "failed"]
    suffixes = {suffix.lower() for facts in usable for suffix in facts.get("suffixes", ())}
    contains = {one for facts in usable for one in facts.get("contains", ())}
    return ModelFormats(tuple(sorted(suffixes)), tuple(sorted(contains)))


def name_source(config: InferConfig, index: PluginIndex) -> Local | Remote:
    """What `model.name` means; looks at the disk, never at the network, and runs no plugin.

    A path that exists wins over an alias, an alias over a name that a source serves. Raises ModelError with near misses
    for what is none of them, PluginError when sources serve the name that cannot be used.
    """
    name, aliases = config.model.name, read_aliases(index)
    if name == "auto":
        return _aliased(aliases.get_default())
    path = Path(name).expanduser()
    if name and _is_there(path):  # Path("") is the current folder
        return Local(path.resolve().stem if path.is_file() else path.resolve().name, path)
    if name in aliases.by_name:
        return _aliased(aliases.by_name[name])
    fits = fits_source(name)
    if all(fits(record) is not None for record in index.records(KIND)):
        raise ModelError(_no_such_model(name, path, aliases, index))
    return _served(name, config, index)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError as error:  # longer than a path may be, or below a folder that must not be read
        raise ModelError(f"{str(path)[:40]!r}... cannot be looked at: {error.strerror}") from None


def _aliased(alias: Alias) -> Remote:
    return Remote(alias.name, alias.source, alias.spec, alias.name, alias.sha256, alias.sampling)


def _served(name: str, config: InferConfig, index: PluginIndex) -> Remote:
    source = select(index, KIND, config.sources.name, fits_source(name), fact=name).winner
    facts, options = source.supports, config.options(KIND, source.name)
    spec = name.removeprefix(facts["prefix"])
    match = re.fullmatch(facts["pattern"], spec)
    if match is None:
        raise ModelError(f"{name!r} is no name that source {source.name!r} understands; write {facts['usage']}")
    versions = [f"@{options[one]}" for one in facts.get("identity", ()) if options.get(one)]
    key = "".join([f"{source.name}--{spec}", *versions]).replace("/", "--")
    return Remote(match.groupdict().get("name") or spec, source.qualified, spec, key)


def _no_such_model(name: str, path: Path, aliases: Aliases, index: PluginIndex) -> str:
    try:
        around = [str(path.parent / entry.name) for entry in path.parent.iterdir() if not entry.name.startswith(".")]
    except OSError:
        around = []
    hint = nearest(name, [*aliases.by_name, *around]) or install_hint(KIND, name.partition(":")[0], index.installed)
    if path.parent != Path() and not path.parent.is_dir():
        return f"no such model {name!r}: there is no folder {str(path.parent)!r}.{hint}"
    known = ", ".join(sorted(aliases.by_name)) or "none"
    usages = "".join(f"; {one.name}: {one.supports.get('usage')}" for one in index.records(KIND))
    return f"no such model {name!r}: no folder, file or alias is called that (aliases: {known}{usages}).{hint}"


def store_folder(source: Remote, config: InferConfig) -> Path:
    """Folder in the cache that belongs to `source`; it exists only once everything in it is complete."""
    return Path(config.load.home).expanduser() / "models" / source.key


def find_cached(source: Remote, config: InferConfig, formats: ModelFormats) -> Local | None:
    """The fetched model, or None when it has not been fetched."""
    folder = store_folder(source, config)
    if not folder.is_dir():
        return None
    files = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    if formats.is_folder(files):
        return Local(source.name, folder)
    models = [one for one in files if formats.is_file(one)]
    if len(models) == 1:
        return Local(source.name, folder / models[0])
    if len(files) == 1:  # no installed loader opens it: let the loaders say so, with their reasons
        return Local(source.name, folder / files[0])
    raise ModelError(f"{folder} holds no single model file; remove it and fetch the model again")


def ensure_model(config: InferConfig, index: PluginIndex) -> Local:
    """The model called `model.name` on this machine, fetched first when it is not there.

    Raises ModelError, one line: no such model, no network, no space, a digest that does not match; PluginError when
    its source is missing.
    """
    source = name_source(config, index)
    if isinstance(source, Local):
        return source
    formats = known_formats(index)
    cached = find_cached(source, config, formats)
    if cached is not None:
        return cached
    from infer.model.pull import fetch

    fetch(source, config, index)
    found = find_cached(source, config, formats)
    if found is None:
        folder = store_folder(source, config)
        raise ConfigError(f"{folder} vanished after the model was fetched; is load.home being cleaned?")
    return found
