"""Options in a YAML file, each with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from infer.config.table import Given, OptionTable
from infer_api.errors import ConfigError

if TYPE_CHECKING:
    import yaml

__all__ = ["read_file"]


def read_file(path: Path, table: OptionTable) -> list[Given]:
    """Options of a YAML file: groups, in them options, and under a plugin's name its own options.

    Raises ConfigError, one line with file and line number: unreadable, no YAML, an unknown or repeated key.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError(f"cannot read the configuration file {path}: {reason}") from None
    try:
        loader = yaml.SafeLoader(text)
        root = loader.get_single_node()
        # The loader builds one value at a time, so that every option keeps its line.
        return [] if root is None else list(_walk(loader, root, "", str(path), table))
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"{path}:{line}: this is no YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"{path}: this is no YAML: {' '.join(str(error).split())}") from None


def _walk(loader: yaml.SafeLoader, node: Any, prefix: str, file: str, table: OptionTable) -> Iterator[Given]:
    from yaml import MappingNode, ScalarNode

    where = f"{file}:{node.start_mark.line + 1}"
    if not isinstance(node, MappingNode):
        if isinstance(node, ScalarNode) and node.tag.endswith(":null"):
            return  # a group with nothing under it
        found = _value(loader, node, where)
        raise ConfigError(f"{where}: {prefix or 'the file'} must hold keys with values, found {found!r}")
    seen: set[str] = set()
    for key_node, value_node in node.value:
        key = str(key_node.value)
        source = f"{file}:{key_node.start_mark.line + 1}"
        if key in seen:
            raise ConfigError(f"{source}: {key!r} is said twice")
        seen.add(key)
        path = f"{prefix}.{key}" if prefix else key
        option = table.by_path.get(path)
        if option is not None:
            yield Given(option, _value(loader, value_node, source), source)
        elif table.holds(path):
            yield from _walk(loader, value_node, path, file, table)
        else:
            # A missing plugin is named as such when options are given under it.
            deeper = f"{path}.*" if isinstance(value_node, MappingNode) else path
            table.refuse_path(deeper if prefix else path, source)


def _value(loader: yaml.SafeLoader, node: Any, where: str) -> Any:
    try:
        return loader.construct_object(node, deep=True)
    except (ValueError, ArithmeticError, AttributeError, LookupError) as error:  # such as !!int "x", or 2001-99-99
        raise ConfigError(
            f"{where}: this is no YAML: {node.value!r} as {node.tag.rpartition(':')[2]}: {error}"
        ) from None
