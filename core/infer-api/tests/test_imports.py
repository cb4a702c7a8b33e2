"""Every module of infer_api is light and imports alone."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

import pytest

import infer_api

MODULES = sorted(f"infer_api.{module.name}" for module in pkgutil.iter_modules(infer_api.__path__))
HEAVY = ("torch", "numpy", "transformers", "fastapi", "zmq")


def loaded_by(module: str, words: tuple[str, ...]) -> set[str]:
    """Which of `words` are loaded when `module` is imported in a fresh process, warnings being errors."""
    code = f"import {module}, sys; print(*(set({words!r}) & set(sys.modules)))"
    command = [sys.executable, "-W", "error", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_alone_and_only_options_loads_pydantic(module: str) -> None:
    expected = {"pydantic"} if module == "infer_api.options" else set()
    assert loaded_by(module, (*HEAVY, "pydantic")) == expected


@pytest.mark.parametrize("module", ["infer_api", "infer_api.errors", "infer_api.manifest"])
def test_reading_manifests_needs_neither_msgspec_nor_pluggy(module: str) -> None:
    assert loaded_by(module, ("msgspec", "pluggy")) == set()
