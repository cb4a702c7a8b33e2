from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from infer_api.requests import EngineHealth
from infer_metrics_prometheus.engine import EngineProbe, EngineTotals

Scrape = Callable[[], Awaitable[dict[Any, float]]]
ENGINE_NAMES = {
    "infer_requests_running",
    "infer_requests_waiting",
    "infer_kv_blocks",
    "infer_kv_usage_ratio",
    "infer_kv_cached_ratio",
    "infer_prompt_tokens_total",
    "infer_generated_tokens_total",
    "infer_cached_prompt_tokens_total",
    "infer_preemptions_total",
    "infer_steps_total",
    "infer_failed_rows_total",
}


def plain(samples: dict[Any, float]) -> dict[str, float]:
    """Samples without labels."""
    return {name: value for (name, labels), value in samples.items() if not labels}


def blocks(samples: dict[Any, float]) -> dict[str, float]:
    return {dict(labels)["state"]: value for (name, labels), value in samples.items() if name == "infer_kv_blocks"}


async def test_live_and_cached_blocks_are_apart_and_ratios_are_shares(scrape: Scrape, engine: Any) -> None:
    engine.has(num_blocks=100, num_free_blocks=70, num_cached_blocks=45, num_running=3, num_waiting=2)
    samples = await scrape()
    assert blocks(samples) == {"live": 30, "cached": 45, "free": 25}
    found = plain(samples)
    assert (found["infer_kv_usage_ratio"], found["infer_kv_cached_ratio"]) == (0.3, 0.45)
    assert (found["infer_requests_running"], found["infer_requests_waiting"]) == (3, 2)
    assert (found["infer_engine_ready"], found["infer_engine_up"]) == (1, 1)


async def test_gauges_are_those_of_the_moment_also_when_nothing_was_told_in_between(
    scrape: Scrape, engine: Any
) -> None:
    engine.has(num_blocks=100, num_free_blocks=4, num_running=106, num_waiting=9)
    assert plain(await scrape())["infer_requests_running"] == 106
    engine.has(num_free_blocks=100, num_cached_blocks=96, num_running=0, num_waiting=0)
    samples = await scrape()
    found = plain(samples)
    assert found["infer_requests_running"] == found["infer_requests_waiting"] == found["infer_kv_usage_ratio"] == 0
    assert blocks(samples) == {"live": 0, "cached": 96, "free": 4}


async def test_an_engine_without_blocks_uses_none(scrape: Scrape) -> None:
    assert plain(await scrape())["infer_kv_usage_ratio"] == 0


@pytest.mark.parametrize("state", ["dead", "restarting", "stuck"])
async def test_a_scrape_without_an_engine_answers_soon_and_leaves_its_metrics_out(
    scrape: Scrape, engine: Any, state: str
) -> None:
    engine.has(num_running=5, num_steps=100)
    assert plain(await scrape()).keys() >= ENGINE_NAMES - {"infer_kv_blocks"}
    if state == "restarting":
        engine.state = EngineHealth(ready=False, reason="the engine starts again")
        engine.stats = _hang
    else:
        setattr(engine, state, True)
    begun = time.monotonic()
    samples = await scrape()
    assert time.monotonic() - begun < 2.0
    assert (plain(samples)["infer_engine_ready"], plain(samples)["infer_engine_up"]) == (0, 0)
    assert {name for name, _ in samples} & ENGINE_NAMES == set()
    assert plain(samples)["infer_requests_received_total"] == 0


async def _hang() -> None:
    await asyncio.sleep(60)


async def test_an_engine_that_answers_but_refuses_requests_is_up_and_not_ready(scrape: Scrape, engine: Any) -> None:
    engine.state = EngineHealth(ready=False, reason="it is draining")
    found = plain(await scrape())
    assert (found["infer_engine_ready"], found["infer_engine_up"]) == (0, 1)


async def test_totals_go_on_when_the_engine_was_started_again(scrape: Scrape, engine: Any) -> None:
    engine.has(num_steps=100, prompt_tokens=1000, generated_tokens=500, cached_tokens=64, num_preemptions=2)
    await scrape()
    engine.has(started_s=2, num_steps=3, prompt_tokens=10, generated_tokens=2, cached_tokens=0, num_preemptions=0)
    found = plain(await scrape())
    assert found["infer_steps_total"] == 103
    assert found["infer_prompt_tokens_total"] == 1010
    assert found["infer_generated_tokens_total"] == 502
    assert found["infer_cached_prompt_tokens_total"] == 64
    assert found["infer_preemptions_total"] == 2


def test_totals_of_several_lives_add_up_and_never_fall(engine: Any) -> None:
    totals, seen = EngineTotals(), [0.0]
    # The last engine has done more than the one before, when it is asked for the first time.
    for life, steps in ((1, 5), (1, 9), (1, 9), (2, 2), (2, 7), (3, 0), (3, 1), (4, 8)):
        engine.has(started_s=life, num_steps=steps, generated_tokens=steps * 3)
        seen.append(totals.after(engine.now)["num_steps"])
    assert seen == sorted(seen)
    assert seen[-1] == 9 + 7 + 1 + 8


async def test_scrapes_at_the_same_time_share_one_question(engine: Any) -> None:
    probe = EngineProbe(engine)
    views = await asyncio.gather(*(probe.view() for _ in range(20)))
    assert engine.num_asked == 1
    assert all(view is views[0] for view in views)
    await probe.view()
    assert engine.num_asked == 2


async def test_a_scraper_that_leaves_does_not_take_the_answer_from_the_others(engine: Any) -> None:
    probe = EngineProbe(engine)
    leaving, staying = asyncio.create_task(probe.view()), asyncio.create_task(probe.view())
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).stats == engine.now
