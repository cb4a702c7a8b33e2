"""Real servers over a tiny random Llama: one whose engine is in the serving process, one with an engine process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import openai
import pytest

from served import Served, serving
from tiny_llama import write_tiny_llama

INFER = Path(sys.executable).with_name("infer")


@pytest.fixture(scope="session")
def infer() -> Path:
    """The command of the running environment."""
    return INFER


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint whose tokenizer adds no begin-of-sequence token."""
    return write_tiny_llama(tmp_path_factory.mktemp("llama") / "tiny-llama")


@pytest.fixture(scope="session", params=["inline", "separate"])
def server(request: pytest.FixtureRequest, llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server that all tests share; they must leave it as they find it."""
    arguments = [str(llama), "--engine-process", request.param, "--served-model-name", "tiny"]
    with serving(INFER, arguments, tmp_path_factory.mktemp("server")) as served:
        yield served


@pytest.fixture
def http(server: Served) -> Iterator[httpx.Client]:
    """A plain client of the shared server."""
    with httpx.Client(base_url=server.url, timeout=30.0, trust_env=False) as client:
        yield client


@pytest.fixture
def client(server: Served) -> Iterator[openai.OpenAI]:
    """The official client of the shared server."""
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=30.0) as made:
        yield made
