"""Keyword options of `LLM(...)` → the same configuration that flags and files make.

max_model_len=2048          a flag's words             --max-model-len
attention="torch"           a group: its plugin        attention.name
kv_cache_memory="2GiB"      the last word of one path  cache.kv_cache_memory
**{"cache.block_tokens": 32}                           a path
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from infer.config.load import load_config
from infer.config.schema import Option, read_schema
from infer.config.table import Given, OptionTable, parse_given
from infer.config.values import nearest
from infer.plugins.discovery import PluginIndex
from infer_api.errors import ConfigError

if TYPE_CHECKING:
    from infer.config.sections import InferConfig

__all__ = ["config_from_options"]


def config_from_options(index: PluginIndex, options: Mapping[str, Any]) -> InferConfig:
    """A validated configuration: defaults, then `INFER_*` variables, then `options`. Raises ConfigError."""
    table = OptionTable(read_schema(), index)
    given = [_given(find_option(table, name), name, value) for name, value in options.items()]
    return load_config(index, flags=given, table=table).config


def find_option(table: OptionTable, name: str) -> Option:
    """The option that a keyword means. Raises ConfigError with near misses, or with the paths it may mean."""
    if name in table.by_path:
        return table.by_path[name]
    flag = "--" + name.replace("_", "-")
    if flag in table.by_flag:  # before groups: --tokenizer is a file, and the group of that name a library
        return table.by_flag[flag]
    if f"{name}.name" in table.by_path:
        return table.by_path[f"{name}.name"]
    found = [path for path in table.by_path if path.rpartition(".")[2] == name]
    if len(found) == 1:
        return table.by_path[found[0]]
    if found:
        ways = " or ".join(f'**{{"{path}": ...}}' for path in found)
        raise ConfigError(f"LLM option {name!r} may mean several: write {ways}")
    words = [path.rpartition(".")[2] for path in table.by_path]
    raise ConfigError(f"unknown LLM option {name!r}.{nearest(name, [*words, *table.by_path])}")


def _given(option: Option, name: str, value: Any) -> Given:
    source = f"LLM option {name}"
    if isinstance(value, str) and option.type.get("type") != "string":
        return parse_given(option, value, source)
    return Given(option, list(value) if isinstance(value, tuple) else value, source)
