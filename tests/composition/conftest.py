"""Wheels of everything in this repository, and a fresh environment with the ones that a small server needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fresh_venv import FreshVenv, build_wheels, link_third_parties, make_venv
from members import ROOT, find_members

DEMOS = ("infer-demo-attention", "infer-demo-model")
NEEDED = (
    "infer",
    "infer-api",
    "infer-core",
    "infer-platform-cpu",
    "infer-attn-torch",
    "infer-tokenizer-json",
    "infer-model-llama",
    "infer-server",
    "infer-openai",
    "infer-schedulers",
    "infer-testkit",
    *DEMOS,
)
"""What the fresh environment holds. No Gemma, no GGUF: what is not installed must not be needed."""


@pytest.fixture(scope="session")
def demos() -> tuple[str, ...]:
    """Names of the sample distributions of third parties."""
    return DEMOS


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Wheel by name of the distribution."""
    projects = [
        ROOT,
        *(member.path for member in find_members()),
        *(ROOT / "tests" / "plugins" / name for name in DEMOS),
    ]
    built = build_wheels(projects, tmp_path_factory.mktemp("wheels"))
    return {wheel.name.partition("-")[0].replace("_", "-"): wheel for wheel in built}


@pytest.fixture(scope="session")
def third_parties(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the third parties of the running environment, and nothing of ours."""
    return link_third_parties(tmp_path_factory.mktemp("linked") / "third_parties")


@pytest.fixture(scope="session")
def venv(wheels: dict[str, Path], third_parties: Path, tmp_path_factory: pytest.TempPathFactory) -> FreshVenv:
    """A fresh environment with our wheels. Tests that change it come last in their file."""
    made = make_venv(tmp_path_factory.mktemp("fresh") / "venv", third_parties)
    made.install(wheels[name] for name in NEEDED)
    return made
