"""Phrases that several errors of the plugin system share."""

from __future__ import annotations

from collections.abc import Iterable

from infer.config.schema import read_schema

__all__ = ["choosing_option", "config_path", "joined"]


def joined(words: Iterable[str], none: str = "none") -> str:
    """The words sorted and separated by commas, or `none` when there are none."""
    return ", ".join(sorted(set(words))) or none


def config_path(kind: str, name: str) -> str:
    """Where options of a plugin live in the configuration: ("attention", "x") → "attention.x"."""
    group = read_schema().find_kind(kind)
    return f"{group.name if group else kind}.{name}"


def choosing_option(kind: str) -> str | None:
    """Path of the option that names the plugin of a kind, or None for a kind without one ("model.name" is none)."""
    path = config_path(kind, "name")
    return path if kind != "models" and path in read_schema().by_path else None
