from __future__ import annotations

import asyncio

import pytest

from infer_bench.drive import run_load
from infer_bench.prompts import Prompt
from infer_bench.records import RequestRecord

PROMPT = Prompt([1], 1, 1)


class Sleeper:
    """A server that takes `seconds` for everything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    async def send(self, prompt: Prompt, record: RequestRecord) -> None:
        await asyncio.sleep(self.seconds)
        record.e2el_s, record.ttft_s = self.seconds, self.seconds


async def test_requests_leave_as_planned_however_slow_the_server_is() -> None:
    planned = [0.0, 0.05, 0.1, 0.15]
    load = await run_load(Sleeper(0.4), [PROMPT] * 4, planned)
    assert [record.sent_s for record in load.records] == pytest.approx(planned, abs=0.04)
    assert load.peak_concurrency == 4
    assert load.duration_s == pytest.approx(0.55, abs=0.1)
    assert 0 <= load.max_lag_s < 0.04


async def test_a_bound_on_concurrency_makes_requests_wait() -> None:
    told: list[int] = []
    load = await run_load(
        Sleeper(0.05), [PROMPT] * 6, [0.0] * 6, max_concurrency=2, tell=lambda record: told.append(record.index)
    )
    assert load.peak_concurrency == 2
    assert [round(record.sent_s / 0.05) for record in load.records] == [0, 0, 1, 1, 2, 2]
    assert told == [0, 1, 2, 3, 4, 5]
