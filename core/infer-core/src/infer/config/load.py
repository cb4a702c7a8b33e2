"""The effective configuration and the source of every value. The only module that reads the process environment.

Strength from low to high: the defaults, the `--config` file, `INFER_*` variables, flags.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer.config.files import read_file
from infer.config.schema import read_schema
from infer.config.table import Given, Installed, OptionTable, parse_given
from infer.config.values import nearest
from infer_api.errors import ConfigError

if TYPE_CHECKING:
    from infer.config.sections import InferConfig

__all__ = ["Effective", "environment", "load_config", "read_environment"]

PREFIX = "INFER_"
# What Kubernetes sets for a service called "infer". INFER_PORT=8000 is not among it: somebody wants a port.
_SERVICE = re.compile(r"INFER_(SERVICE_\w+|PORT_\w+)=.*|INFER_PORT=\w+://.*", re.DOTALL)


@dataclass(frozen=True)
class Effective:
    """A validated configuration; `given` holds, by path, what was said and where. The rest are defaults."""

    config: InferConfig
    given: Mapping[str, Given]

    def source(self, path: str) -> str:
        """Where the value of `path` came from: a flag, a variable, file:line, or "default"."""
        return self.given[path].source if path in self.given else "default"


def environment() -> Mapping[str, str]:
    """A copy of the process environment."""
    return dict(os.environ)


def read_environment(environ: Mapping[str, str], table: OptionTable) -> list[Given]:
    """Options from variables; an empty one counts as unset, but for keys: an empty one must not open a server.

    Raises ConfigError for an `INFER_` variable that is no option (with near misses) or a value of the wrong form.
    """
    given = []
    for name, text in sorted(environ.items()):
        option = table.by_env.get(name)
        if not text and not (option and option.secret and option.type.get("type") == "array"):
            continue
        if option is not None:
            given.append(parse_given(option, text, name))
        elif name.startswith(PREFIX) and ("__" in name or not _SERVICE.fullmatch(f"{name}={text}")):
            raise ConfigError(f"unknown environment variable {name}.{nearest(name, list(table.by_env))}")
    return given


def load_config(
    installed: Installed,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Iterable[Given] = (),
    table: OptionTable | None = None,
) -> Effective:
    """Join all sources and validate.

    `environ` None means the process environment. Raises ConfigError, one line, with the path, the source and what to
    type instead.
    """
    table = table or OptionTable(read_schema(), installed)
    given: dict[str, Given] = {}
    sources = (
        read_file(file, table) if file is not None else (),
        read_environment(environment() if environ is None else environ, table),
        flags,
    )
    for source in sources:
        given |= {one.option.path: one for one in source}
    for one in given.values():
        table.check(one)
    return Effective(_validate(given, table), given)


def _validate(given: Mapping[str, Given], table: OptionTable) -> InferConfig:
    # pydantic is loaded here and not before: help and listings never come this far.
    from infer.config.sections import InferConfig

    groups: dict[str, dict[str, Any]] = {}
    plugins: dict[str, dict[str, dict[str, Any]]] = {}
    for path, one in given.items():
        if path in table.plugin_of:
            kind, plugin, option = table.plugin_of[path]
            plugins.setdefault(kind, {}).setdefault(plugin, {})[option] = one.value
        else:
            group, _, name = path.partition(".")
            groups.setdefault(group, {})[name] = one.value
    sources = {path: one.source for path, one in given.items()}
    return InferConfig.validated({**groups, "plugin_options": plugins}, sources)
