"""A real `infer serve`, whose counters must add up and whose gauges must go back to 0."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

served = pytest.importorskip("served", reason="the tools to start a server are in the repository")
tiny_llama = pytest.importorskip("tiny_llama")

INFER = Path(sys.executable).with_name("infer")
GAUGES = ("infer_requests_open", "infer_requests_running", "infer_requests_waiting", "infer_kv_usage_ratio")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("metrics")
    model = tiny_llama.write_tiny_llama(folder / "tiny-llama")
    arguments = [str(model), "--served-model-name", "tiny", "--engine-process", "separate"]
    with served.serving(INFER, [*arguments, "--on-engine-death", "restart"], folder / "server") as running:
        yield running


@pytest.fixture
def http(server: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=30.0, trust_env=False) as client:
        yield client


def scrape(http: httpx.Client) -> dict[str, float]:
    """Samples by name and values of labels: `infer_kv_blocks live`."""
    reply = http.get("/metrics")
    assert reply.status_code == 200, reply.text
    families = text_string_to_metric_families(reply.text)
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in families
        for sample in family.samples
    }


def wait_until(condition: Any, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.05)


async def leave_all(url: str, many: int) -> None:
    """Open streams, read the beginning of each, and drop all at once."""
    body = {"model": "tiny", "prompt": "the sea", "max_tokens": 480, "ignore_eos": True, "stream": True}
    limits = httpx.Limits(max_connections=many)
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False, limits=limits) as client:
        begun = 0

        async def one() -> None:
            nonlocal begun
            async with client.stream("POST", "/v1/completions", json=body) as reply:
                begun += reply.status_code == 200
                await asyncio.sleep(60)

        tasks = [asyncio.create_task(one()) for _ in range(many)]
        while begun < 8:  # the first places are taken; all others wait for their headers
            await asyncio.sleep(0.01)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def outcomes(samples: dict[str, float]) -> float:
    return sum(value for name, value in samples.items() if name.startswith("infer_requests_finished_total"))


def test_gauges_are_0_after_all_clients_left_at_once(server: Any, http: httpx.Client) -> None:
    before = scrape(http)
    asyncio.run(leave_all(server.url, 50))
    wait_until(lambda: not any(scrape(http)[name] for name in GAUGES), 2.0)
    samples = scrape(http)
    assert samples["infer_kv_blocks live"] == 0
    assert samples["infer_requests_finished_total abort"] - before["infer_requests_finished_total abort"] >= 8
    assert samples["infer_requests_received_total"] == outcomes(samples)


def test_distinct_prompts_leave_cached_blocks_and_no_live_ones(http: httpx.Client) -> None:
    for number in range(20):
        body = {"model": "tiny", "prompt": f"{number} " + "the sea and the shore " * 4, "max_tokens": 2}
        assert http.post("/v1/completions", json=body).status_code == 200
    samples = scrape(http)
    assert samples["infer_kv_usage_ratio"] == samples["infer_kv_blocks live"] == 0
    assert 0 < samples["infer_kv_cached_ratio"] <= 1
    assert samples["infer_kv_blocks cached"] > 0


def test_a_repeated_prompt_counts_as_found_in_the_cache(http: httpx.Client) -> None:
    body = {"model": "tiny", "prompt": "over and over " * 16, "max_tokens": 2}
    assert http.post("/v1/completions", json=body).status_code == 200
    before = scrape(http)["infer_cached_prompt_tokens_total"]
    assert http.post("/v1/completions", json=body).status_code == 200
    assert scrape(http)["infer_cached_prompt_tokens_total"] > before


def test_replies_are_counted_by_declared_route(http: httpx.Client) -> None:
    http.get("/v1/models/nobody")
    http.get("/nowhere/at/all")
    samples = scrape(http)
    replies = [name for name in samples if name.startswith("infer_http_responses_total")]
    assert any(name.startswith("infer_http_responses_total GET /v1/models/{") for name in replies), replies
    assert samples["infer_http_responses_total GET unmatched 404"] == 1
    assert not any("nobody" in name or "nowhere" in name for name in replies)


@pytest.mark.slow
def test_a_stopped_engine_is_told_and_its_metrics_are_absent(server: Any, http: httpx.Client) -> None:
    (pid,) = server.child_pids()
    os.kill(pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        samples = scrape(http)
        assert time.monotonic() - begun < 2.0
        assert samples["infer_engine_up"] == 0
        assert "infer_requests_running" not in samples
        wait_until(lambda: scrape(http)["infer_engine_ready"] == 0, 5.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_until(lambda: scrape(http)["infer_engine_ready"] == 1, 10.0)
    assert "infer_requests_running" in scrape(http)


@pytest.mark.slow
def test_totals_go_on_after_the_engine_was_killed_and_started_again(server: Any, http: httpx.Client) -> None:
    before = scrape(http)
    assert before["infer_steps_total"] > 0
    (pid,) = server.child_pids()
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: scrape(http)["infer_engine_ready"] == 0, 5.0)
    wait_until(lambda: scrape(http)["infer_engine_ready"] == 1, 30.0)
    body = {"model": "tiny", "prompt": "again", "max_tokens": 2}
    assert http.post("/v1/completions", json=body).status_code == 200
    samples = scrape(http)
    for name in ("infer_steps_total", "infer_prompt_tokens_total", "infer_generated_tokens_total"):
        assert samples[name] > before[name], name
    assert samples["infer_requests_received_total"] == outcomes(samples)
