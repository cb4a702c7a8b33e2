"""B58: scores that are not finite, from a checkpoint in which one row of the embedding is NaN.

A request that writes that token is computed from NaN from the next step on. `logit_bias` makes it write the token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from safetensors.torch import load_file, save_file

from served import Served, serving
from tiny_llama import write_tiny_llama

POISON_ID = 90
PROMPT = [(at * 7) % 80 for at in range(50)]
GOOD: dict[str, Any] = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0, "ignore_eos": True}
BAD = GOOD | {"logit_bias": {str(POISON_ID): 100}}


@pytest.fixture(scope="module")
def poisoned(infer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server of the checkpoint with the bad row."""
    folder = write_tiny_llama(tmp_path_factory.mktemp("nan") / "tiny-llama")
    tensors = load_file(folder / "model.safetensors")
    tensors["model.embed_tokens.weight"][POISON_ID] = float("nan")
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    with serving(infer, [str(folder)], tmp_path_factory.mktemp("nan_server")) as served:
        yield served


@pytest.fixture
def asking(poisoned: Served) -> Iterator[httpx.Client]:
    """A plain client of it."""
    with httpx.Client(base_url=poisoned.url, timeout=30.0, trust_env=False) as client:
        yield client


def cached_tokens(reply: httpx.Response) -> int:
    count: int = reply.json()["usage"]["prompt_tokens_details"]["cached_tokens"]
    return count


def test_the_poisoned_request_alone_ends_with_an_error(asking: httpx.Client) -> None:
    expected = asking.post("/v1/completions", json=GOOD).json()["choices"][0]["text"]
    with ThreadPoolExecutor(9) as pool:
        replies = list(
            pool.map(lambda body: asking.post("/v1/completions", json=body), [GOOD] * 4 + [BAD] + [GOOD] * 4)
        )
    assert [reply.status_code for reply in replies] == [200] * 4 + [500] + [200] * 4
    assert {reply.json()["choices"][0]["text"] for reply in replies if reply.status_code == 200} == {expected}
    assert "not finite" in replies[4].json()["error"]["message"]


def test_a_stream_tells_of_it_and_ends(asking: httpx.Client) -> None:
    with asking.stream("POST", "/v1/completions", json=BAD | {"stream": True}) as reply:
        assert reply.status_code == 200, "the first token was drawn from sound scores"
        events = [line.removeprefix("data: ") for line in reply.iter_lines() if line]
    assert events[-1] != "[DONE]"
    assert json.loads(events[-1])["error"]["message"]


def test_nobody_finds_what_it_computed_or_read(asking: httpx.Client) -> None:
    asking.post("/v1/completions", json=GOOD)
    warm = asking.post("/v1/completions", json=GOOD)
    assert cached_tokens(warm) > 0
    assert asking.post("/v1/completions", json=BAD).status_code == 500
    cold = asking.post("/v1/completions", json=GOOD)
    assert cached_tokens(cold) == 0
    assert cold.json()["choices"] == warm.json()["choices"]


def test_it_is_counted_and_nothing_is_held(asking: httpx.Client) -> None:
    before = asking.get("/stats").json()
    asking.post("/v1/completions", json=BAD)
    after = asking.get("/stats").json()
    assert after["num_failed_rows"] == before["num_failed_rows"] + 1
    assert (after["num_running"], after["num_waiting"]) == (0, 0)
    assert after["num_free_blocks"] == after["num_blocks"]
