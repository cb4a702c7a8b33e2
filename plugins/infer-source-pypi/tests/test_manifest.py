from __future__ import annotations

import re

import pytest

from infer_api.manifest import write_manifest
from infer_source_pypi.manifest import PYPI
from infer_source_pypi.source import PypiSource


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_source_pypi", check=True)


def test_the_implementation_is_the_source() -> None:
    assert PYPI.implementation == f"{PypiSource.__module__}:{PypiSource.__name__}"


@pytest.mark.parametrize("spec", ["some-model", "some_model==1.0.2", "m.x==1!2+cpu"])
def test_a_plain_requirement_is_a_name(spec: str) -> None:
    match = re.fullmatch(PYPI.supports.pattern, spec)
    assert match is not None
    assert match["name"] == spec.partition("==")[0]


@pytest.mark.parametrize("spec", ["", "--index-url=x", "a>=1", "a; b", "../x", "a @ https://x", "a b"])
def test_nothing_else_reaches_pip(spec: str) -> None:
    assert re.fullmatch(PYPI.supports.pattern, spec) is None
