"""The short names of models that our catalog ships: each is pinned, and a source of ours can fetch it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infer.model.aliases import Alias, read_aliases
from infer.plugins.discovery import discover
from infer_source_pypi.pins import parse_pins
from members import ROOT, find_members

DATA: dict[str, Any] = json.loads((ROOT / "src" / "infer_catalog" / "aliases.json").read_text(encoding="utf-8"))
ALIASES = [Alias(name=name, **facts) for name, facts in DATA["aliases"].items()]


def name_of(alias: Alias) -> str:
    return alias.name


def test_the_installed_catalog_gives_these_aliases_and_the_default() -> None:
    found = read_aliases(discover())
    assert [found.by_name[alias.name] for alias in ALIASES] == ALIASES
    assert found.get_default().name == DATA["default"]


@pytest.mark.parametrize("alias", ALIASES, ids=name_of)
def test_an_alias_is_pinned_and_its_source_exists(alias: Alias) -> None:
    sources = {name for member in find_members() for name in member.entry_points.get("infer.model_sources", {})}
    assert alias.summary
    assert re.fullmatch("[0-9a-f]{64}", alias.sha256)
    assert alias.source in sources


@pytest.mark.parametrize("alias", [alias for alias in ALIASES if alias.source == "pypi"], ids=name_of)
def test_pins_of_packages_name_one_version_and_a_digest_each(alias: Alias) -> None:
    assert not isinstance(alias.spec, str)
    for part in parse_pins(alias.name, alias.spec).parts:
        assert "==" in part.requirement
        assert re.fullmatch("[0-9a-f]{64}", part.wheel_sha256)
