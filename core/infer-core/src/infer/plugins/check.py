"""Whether a plugin can run here, decided from its manifest before any of its code is imported."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any, get_args, get_origin, get_type_hints

from infer.config.schema import plugin_options
from infer.config.values import check_value, describe_type
from infer.plugins.installed import find_package
from infer.plugins.wording import joined
from infer_api import manifest
from infer_api.manifest import API_VERSIONS, Plugin

__all__ = ["Machine", "capability_problem", "contract_problem", "requires_problem", "shape_problem"]

_CLASSES = {one.KIND: one for one in vars(manifest).values() if isinstance(one, type) and issubclass(one, Plugin)}


class Machine:
    """Facts of this interpreter and processor, each looked up when a plugin first asks for it."""

    def __init__(self, versions: Mapping[str, str], cpuinfo: str = "/proc/cpuinfo") -> None:
        self._versions = versions
        self._cpuinfo = cpuinfo

    def has_module(self, name: str) -> bool:
        """Whether the top-level module `name` is importable; it is not imported."""
        return find_package(name.partition(".")[0]) is not None

    def find_version(self, distribution: str) -> str | None:
        """Installed version, or None. Versions that `versions` lacks are asked of importlib.metadata."""
        if self._versions.get(distribution):
            return self._versions[distribution]
        from importlib.metadata import PackageNotFoundError, version  # costly, and seldom needed

        try:
            return version(distribution)
        except PackageNotFoundError:
            return None

    @cached_property
    def cpu_flags(self) -> frozenset[str] | None:
        """Flags of the first processor, or None where the system does not list them."""
        try:
            with open(self._cpuinfo, encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    key, _, value = line.partition(":")
                    if key.strip() in ("flags", "Features"):
                        return frozenset(value.split())
        except OSError:
            return None
        return None


def shape_problem(data: Mapping[str, Any]) -> str:
    """What is wrong with one entry of infer-plugin.json as data, or "" when every field has the type of its class."""
    kind = data.get("kind")
    hints = get_type_hints(_CLASSES.get(str(kind), Plugin), localns={"Options": object})
    hints |= {"KIND": object, "attribute": str, "options": dict | None, "options_class": str | None}
    if "request" in hints:
        hints |= {"request": dict, "request_class": str}
    for name, hint in {"kind": str, **hints}.items():
        if name not in data and name not in ("supports", "KIND"):
            return f"the field {name!r} is missing"
        if wrong := _misfit(data.get(name, {}), hint, name):
            return f"the field {wrong}"
    try:
        for text in ("pattern", "bare") if kind == "model_sources" else ():
            re.compile(data.get("supports", {}).get(text, ""))
        capability_problem(data["requires"], "0")
        for schema in (data["options"], data.get("request")):
            _try_options(schema)
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, re.error) as error:
        return f"something in it cannot be read ({error!r})"
    return ""


def _misfit(value: Any, hint: Any, where: str) -> str:
    """What in `value` is not JSON of the type `hint`. Of a dataclass any field may be missing, others may be there."""
    origin, args = get_origin(hint), get_args(hint)
    shape: Any = dict if is_dataclass(hint) or origin is Mapping else list if origin in (tuple, frozenset) else hint
    kinds = args if origin is tuple and ... not in args else args[:1] * len(value) if isinstance(value, list) else ()
    fits = isinstance(value, shape) and not (hint is int and isinstance(value, bool))
    if not fits or (shape is list and len(kinds) != len(value)):
        return f"{where!r} is {reprlib.repr(value)}"
    parts = [(item, kind, where) for item, kind in zip(value, kinds, strict=True)] if shape is list else []
    if is_dataclass(hint):
        parts = [(value[key], part, f"{where}.{key}") for key, part in get_type_hints(hint).items() if key in value]
    elif origin is Mapping:
        parts = [(item, args[1], f"{where}.{key}") for key, item in value.items()]
    return next(filter(None, (_misfit(*part) for part in parts)), "")


def _try_options(schema: Mapping[str, Any] | None) -> None:
    """Do with a schema of options what help and configuration will do; raises whatever they would."""
    for option in plugin_options("plugin", schema):
        " ".join((option.doc, describe_type(option.type, option.defs), *option.all_flags, *option.all_env))
        for value in (1, [1], {"key": 1}):
            with suppress(ValueError):
                check_value(value, option.type, option.defs)


def contract_problem(kind: str, api: int, distribution: str) -> str:
    """Why this infer-api cannot talk to a plugin of contract version `api`, or ""."""
    known = API_VERSIONS.get(kind)
    if known is None:
        return f"the kind {kind!r} is not known to this infer-api (known: {joined(API_VERSIONS)}); upgrade infer-api"
    if api in known:
        return ""
    understood = ", ".join(map(str, known))
    way_out = "upgrade infer-api and infer-core" if api > max(known) else f"upgrade {distribution}"
    return f"it is written for version {api} of the {kind} contract, this infer-api understands {understood}; {way_out}"


def requires_problem(requires: Mapping[str, Any], machine: Machine) -> str:
    """The first requirement that this machine does not meet, or "". Compute capability is left to selection."""
    missing = [name for name in requires.get("modules", ()) if not machine.has_module(name)]
    if missing:
        return f"it needs the module{'s' if len(missing) > 1 else ''} {joined(missing)}, which cannot be imported"
    return _torch_problem(str(requires.get("torch") or ""), machine) or _cpu_problem(requires, machine)


def capability_problem(requires: Mapping[str, Any], have: str) -> str:
    """Why a device of compute capability `have` ("9.0"; "" = not a CUDA device) does not do, or ""."""
    need = str(requires.get("compute_capability") or "")
    if not need:
        return ""
    if not have:
        return f"it needs compute capability {need}, and the device has none"
    return "" if _numbers(have) >= _numbers(need) else f"it needs compute capability {need}, the device has {have}"


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _torch_problem(wanted: str, machine: Machine) -> str:
    if not wanted:
        return ""
    found = machine.find_version("torch")
    if found is None:
        return f"it needs torch {wanted}, and torch is not installed"
    from packaging.specifiers import InvalidSpecifier, SpecifierSet  # 20 ms that few plugins ask for

    try:
        fits = SpecifierSet(wanted).contains(found, prereleases=True)
    except InvalidSpecifier:
        return f"its range of torch versions {wanted!r} cannot be read"
    return "" if fits else f"it needs torch {wanted}, found {found}"


def _cpu_problem(requires: Mapping[str, Any], machine: Machine) -> str:
    wanted = list(requires.get("cpu_flags", ()))
    if not wanted:
        return ""
    if machine.cpu_flags is None:
        return f"it needs the CPU flags {joined(wanted)}, and this system does not list its CPU's flags"
    missing = [flag for flag in wanted if flag not in machine.cpu_flags]
    return f"it needs the CPU flags {joined(missing)}, which this CPU lacks" if missing else ""
