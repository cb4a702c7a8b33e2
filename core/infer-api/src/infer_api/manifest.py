"""Plugin manifests: what can be known of a plugin without running its code.

A plugin package has a `manifest.py` whose module-level objects are instances of the classes below;
each is the value of an entry point (`infer.<kind>`, name = plugin name). Discovery never imports it:
it reads `infer-plugin.json`, which lies beside it and is written by

    python -m infer_api.manifest PACKAGE            # write
    python -m infer_api.manifest PACKAGE --check    # exit 1 when stale

A manifest module imports no torch and probes nothing.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from infer_api.errors import PluginError

if TYPE_CHECKING:
    from infer_api.options import Options

__all__ = [
    "API_VERSIONS",
    "MANIFEST_FILE",
    "AttentionPlugin",
    "AttentionSupport",
    "CommandPlugin",
    "CommandSupport",
    "ExecutorPlugin",
    "HeadSizes",
    "LoaderPlugin",
    "LoaderSupport",
    "LogitsProcessorPlugin",
    "ModelPlugin",
    "ModelSupport",
    "OpsPlugin",
    "OpsSupport",
    "PlatformPlugin",
    "PlatformSupport",
    "Plugin",
    "QuantizationPlugin",
    "QuantizationSupport",
    "Requires",
    "RoutesPlugin",
    "RoutesSupport",
    "SchedulerPlugin",
    "SchedulerSupport",
    "SourcePlugin",
    "SourceSupport",
    "TokenizerPlugin",
    "TokenizerSupport",
    "manifest_json",
    "package_manifest",
    "write_manifest",
]

MANIFEST_FILE = "infer-plugin.json"
SCHEMA = 1

API_VERSIONS: dict[str, tuple[int, ...]] = {
    "platforms": (1,),
    "models": (1,),
    "attention": (1,),
    "quantization": (1,),
    "ops": (1,),
    "loaders": (1,),
    "tokenizers": (1,),
    "executors": (1,),
    "schedulers": (1,),
    "logits_processors": (1,),
    "routes": (1,),
    "commands": (1,),
    "model_sources": (1,),
}
"""Contract versions that this release of infer-api understands, per kind. A kind exists when its first
implementation does; a minor release may add a version, only a major one drops one."""


@dataclass(frozen=True, kw_only=True)
class Requires:
    """What must be there before a plugin can run; checked before any of its code is imported."""

    modules: tuple[str, ...] = ()
    """Top-level modules that must be importable."""
    torch: str = ""
    """Version range of torch, such as ">=2.11"."""
    compute_capability: str = ""
    """Lowest CUDA compute capability, such as "9.0"."""
    cpu_flags: tuple[str, ...] = ()
    """CPU flags as in /proc/cpuinfo, such as ("avx2", "fma")."""


@dataclass(frozen=True, kw_only=True)
class Plugin:
    """Fields common to the manifests of every kind. `priority` (0-100) orders plugins that all fit."""

    KIND: ClassVar[str] = ""

    name: str
    summary: str
    implementation: str
    """Import path "package.module:Attribute", imported when the plugin is used and not before."""
    api: int = 1
    options: type[Options] | None = None
    priority: int = 0
    roles: tuple[str, ...] = ("engine", "worker")
    """Processes in which the plugin is loaded: any of cli, api, engine, worker."""
    requires: Requires = field(default_factory=Requires)

    def __post_init__(self) -> None:
        if ":" not in self.implementation:
            raise PluginError(
                f"plugin {self.name!r}: implementation {self.implementation!r} must be 'package.module:Attribute'"
            )
        if not 0 <= self.priority <= 100:
            raise PluginError(f"plugin {self.name!r}: priority {self.priority} is outside 0..100")


@dataclass(frozen=True, kw_only=True)
class PlatformSupport:
    """`device_type` is torch's name of the device ("cpu", "cuda", or a vendor's own)."""

    device_type: str
    dtypes: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class PlatformPlugin(Plugin):
    """Manifest of a `platforms` plugin; `implementation` is an `infer_api.platforms.Platform`."""

    KIND: ClassVar[str] = "platforms"
    supports: PlatformSupport


@dataclass(frozen=True, kw_only=True)
class ModelSupport:
    """Architectures by checkpoint dialect: {"hf": ("XForCausalLM",)}."""

    architectures: Mapping[str, tuple[str, ...]]
    tasks: tuple[str, ...] = ("generate",)


@dataclass(frozen=True, kw_only=True)
class ModelPlugin(Plugin):
    """Manifest of a `models` plugin; `implementation` is an `infer_api.models.ModelFamily`."""

    KIND: ClassVar[str] = "models"
    supports: ModelSupport


@dataclass(frozen=True, kw_only=True)
class HeadSizes:
    """Head widths a backend accepts: multiples of `multiple_of` up to `maximum` (0 = no bound)."""

    multiple_of: int = 1
    maximum: int = 0


@dataclass(frozen=True, kw_only=True)
class AttentionSupport:
    """Facts for selecting an attention backend.

    `devices` are torch device types ("*" = any). Feature words: sliding_window, softcap, sinks,
    bidirectional, kv_fp8, mla, different_value_size.
    """

    devices: frozenset[str]
    dtypes: frozenset[str]
    head_sizes: HeadSizes = field(default_factory=HeadSizes)
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class AttentionPlugin(Plugin):
    """Manifest of an `attention` plugin; `implementation` is an `infer_api.attention.AttentionBackend`."""

    KIND: ClassVar[str] = "attention"
    supports: AttentionSupport


@dataclass(frozen=True, kw_only=True)
class QuantizationSupport:
    """What a quantization method reads.

    `dialects`: checkpoint dialects it may apply to ("*" = any). `methods`: values of a Hugging Face
    `quantization_config.quant_method` it implements; "" stands for a checkpoint that names none.
    """

    dialects: frozenset[str]
    methods: frozenset[str]
    devices: frozenset[str]
    dtypes: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class QuantizationPlugin(Plugin):
    """Manifest of a `quantization` plugin; `implementation` is an `infer_api.quantization.QuantMethod`."""

    KIND: ClassVar[str] = "quantization"
    supports: QuantizationSupport


@dataclass(frozen=True, kw_only=True)
class OpsSupport:
    """Names of the ops on offer, and the devices ("*" = any)."""

    ops: frozenset[str]
    devices: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class OpsPlugin(Plugin):
    """Manifest of an `ops` plugin; `implementation` is an `infer_api.ops.OpOffer`."""

    KIND: ClassVar[str] = "ops"
    supports: OpsSupport


@dataclass(frozen=True, kw_only=True)
class LoaderSupport:
    """Which paths a loader opens: files with one of `suffixes`, folders holding one of the glob `contains`."""

    dialect: str
    suffixes: tuple[str, ...] = ()
    contains: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LoaderPlugin(Plugin):
    """Manifest of a `loaders` plugin; `implementation` is an `infer_api.loaders.Checkpoint`."""

    KIND: ClassVar[str] = "loaders"
    supports: LoaderSupport


@dataclass(frozen=True, kw_only=True)
class TokenizerSupport:
    """Formats of `infer_api.tokenizers.TokenizerSource` that a tokenizer plugin reads."""

    formats: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class TokenizerPlugin(Plugin):
    """Manifest of a `tokenizers` plugin; `implementation` is called with a `TokenizerSource`."""

    KIND: ClassVar[str] = "tokenizers"
    supports: TokenizerSupport
    roles: tuple[str, ...] = ("api",)


@dataclass(frozen=True, kw_only=True)
class ExecutorPlugin(Plugin):
    """Manifest of an `executors` plugin; `implementation` is an `infer_api.executors.Executor`."""

    KIND: ClassVar[str] = "executors"
    roles: tuple[str, ...] = ("engine",)


@dataclass(frozen=True, kw_only=True)
class SchedulerSupport:
    """`heeds_priority`: whether the policy looks at the `priority` of a request; where it does not, one is refused."""

    heeds_priority: bool = False


@dataclass(frozen=True, kw_only=True)
class SchedulerPlugin(Plugin):
    """Manifest of a `schedulers` plugin; `implementation` is an `infer_api.schedulers.Policy`."""

    KIND: ClassVar[str] = "schedulers"
    supports: SchedulerSupport = field(default_factory=SchedulerSupport)
    roles: tuple[str, ...] = ("engine",)


@dataclass(frozen=True, kw_only=True)
class LogitsProcessorPlugin(Plugin):
    """Manifest of a `logits_processors` plugin; `implementation` is an `infer_api.processors.LogitsProcessor`.

    `request` are the parameters that one request sends as `logits_processors: {name: {…}}`; their schema is part of
    the manifest and of the server's OpenAPI.
    """

    KIND: ClassVar[str] = "logits_processors"
    request: type[Options]
    roles: tuple[str, ...] = ("api", "worker")


@dataclass(frozen=True, kw_only=True)
class RoutesSupport:
    """`tasks`: what the model must be able to do for the routes to be mounted ("generate", "pool")."""

    tasks: tuple[str, ...] = ("generate",)


@dataclass(frozen=True, kw_only=True)
class RoutesPlugin(Plugin):
    """Manifest of a `routes` plugin; `implementation` is an `infer_api.routes.Routes`."""

    KIND: ClassVar[str] = "routes"
    supports: RoutesSupport = field(default_factory=RoutesSupport)
    roles: tuple[str, ...] = ("api",)


@dataclass(frozen=True, kw_only=True)
class CommandSupport:
    """How an `infer NAME` subcommand is parsed, as data.

    `arguments` lists positional arguments as (name, help); a name ending in "?" is optional. A command
    whose `takes_config` is true accepts every configuration flag. `subcommands` are (name, help) pairs. A `quiet`
    command logs warnings and errors only, unless the user says otherwise.
    """

    arguments: tuple[tuple[str, str], ...] = ()
    subcommands: tuple[tuple[str, str], ...] = ()
    takes_config: bool = True
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class CommandPlugin(Plugin):
    """Manifest of a `commands` plugin; `implementation` is an `infer_api.commands.Command`.

    The fields of `options` become flags of the command (`--my-option`), parsed from their JSON schema.
    """

    KIND: ClassVar[str] = "commands"
    supports: CommandSupport = field(default_factory=CommandSupport)
    roles: tuple[str, ...] = ("cli",)


@dataclass(frozen=True, kw_only=True)
class SourceSupport:
    """Which names a source serves: "PREFIX…", and without the prefix names that the regular expression `bare` matches.

    What follows the prefix must match `pattern`, as a whole; its group "name", if it has one, is what people call the
    model. `usage` is how such a name is written, for help and errors. `identity` lists options whose values tell one
    model from another, such as a revision: each value has a place of its own in the cache.
    """

    prefix: str
    pattern: str
    usage: str
    bare: str = ""
    identity: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for expression in (self.pattern, self.bare):
            try:
                re.compile(expression)
            except re.error as error:
                raise PluginError(f"source {self.prefix!r}: {expression!r} is no pattern: {error}") from error


@dataclass(frozen=True, kw_only=True)
class SourcePlugin(Plugin):
    """Manifest of a `model_sources` plugin; `implementation` is an `infer_api.sources.ModelSource`."""

    KIND: ClassVar[str] = "model_sources"
    supports: SourceSupport
    roles: tuple[str, ...] = ("cli", "api")


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted(_plain(item) for item in value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def manifest_json(plugin: Plugin, attribute: str) -> dict[str, Any]:
    """Plain data of one plugin, as it stands in `infer-plugin.json`; `attribute` is its name in manifest.py."""
    fields = {f.name: getattr(plugin, f.name) for f in dataclasses.fields(plugin)}
    described = {name: fields.pop(name) for name in ("options", "request") if name in fields}
    data = {"kind": plugin.KIND, **{name: _plain(value) for name, value in fields.items()}, "attribute": attribute}
    for name, options in described.items():
        data[name] = options.model_json_schema() if options is not None else None
        data[f"{name}_class"] = f"{options.__module__}:{options.__qualname__}" if options is not None else None
    return data


def package_manifest(package: str) -> tuple[Path, str]:
    """Path and text that the manifest file of `package` should have. Raises PluginError without manifest.py."""
    try:
        module = importlib.import_module(f"{package}.manifest")
    except ModuleNotFoundError as error:
        raise PluginError(f"package {package!r} has no importable manifest.py: {error}") from error
    entries = [manifest_json(value, name) for name, value in sorted(vars(module).items()) if isinstance(value, Plugin)]
    if not entries:
        raise PluginError(f"{package}.manifest defines no Plugin object")
    assert module.__file__ is not None
    text = json.dumps({"schema": SCHEMA, "plugins": entries}, indent=1, ensure_ascii=False) + "\n"
    return Path(module.__file__).with_name(MANIFEST_FILE), text


def write_manifest(package: str, *, check: bool = False) -> bool:
    """Write `infer-plugin.json` of `package`, or only `check` it. Returns whether it was fresh already."""
    path, text = package_manifest(package)
    fresh = path.exists() and path.read_text(encoding="utf-8") == text
    if not fresh and not check:
        path.write_text(text, encoding="utf-8")
    return fresh


def main(arguments: list[str]) -> int:
    """Entry of `python -m infer_api.manifest PACKAGE... [--check]`."""
    check = "--check" in arguments
    packages = [argument for argument in arguments if not argument.startswith("-")]
    if not packages:
        print("usage: python -m infer_api.manifest PACKAGE... [--check]", file=sys.stderr)
        return 2
    stale = [package for package in packages if not write_manifest(package, check=check)]
    for package in stale:
        print(f"{package}: {'stale; run python -m infer_api.manifest ' + package if check else 'written'}")
    return 1 if check and stale else 0


if __name__ == "__main__":
    # `python -m` runs a second copy of this module: use the one that manifest.py files import.
    sys.exit(importlib.import_module("infer_api.manifest").main(sys.argv[1:]))
