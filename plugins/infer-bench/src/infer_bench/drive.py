"""The open loop: requests leave at their planned times, whatever the server does."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from infer_bench.prompts import Prompt
from infer_bench.records import RequestRecord

__all__ = ["Load", "Sender", "run_load"]


class Sender(Protocol):
    """What sends one request; `infer_bench.client.StreamClient` is one."""

    async def send(self, prompt: Prompt, record: RequestRecord) -> None: ...


@dataclass(frozen=True)
class Load:
    """What came of one run. `duration_s` is from the first sending to the last end."""

    records: tuple[RequestRecord, ...]
    duration_s: float
    peak_concurrency: int
    max_lag_s: float
    """How late the client itself was at most; more than a few milliseconds: it was too busy to measure well."""


class _Gauge:
    """Requests under way, and the most there were."""

    def __init__(self) -> None:
        self.now = self.peak = 0

    def __enter__(self) -> None:
        self.now += 1
        self.peak = max(self.peak, self.now)

    def __exit__(self, *_: object) -> None:
        self.now -= 1


async def run_load(
    sender: Sender,
    prompts: Sequence[Prompt],
    arrivals_s: Sequence[float],
    *,
    max_concurrency: int | None = None,
    tell: Callable[[RequestRecord], None] = lambda record: None,
) -> Load:
    """Send prompt i at `arrivals_s[i]` seconds from now, or as soon after as `max_concurrency` lets it.

    `tell` is called with each record when its request has ended.
    """
    slots: contextlib.AbstractAsyncContextManager[object] = (
        contextlib.nullcontext() if max_concurrency is None else asyncio.Semaphore(max_concurrency)
    )
    gauge, lags, start = _Gauge(), [0.0], time.perf_counter()

    async def one(prompt: Prompt, record: RequestRecord) -> RequestRecord:
        async with slots:
            with gauge:
                record.sent_s = time.perf_counter() - start
                await sender.send(prompt, record)
        tell(record)
        return record

    async with asyncio.TaskGroup() as group:
        tasks = []
        for index, (prompt, planned_s) in enumerate(zip(prompts, arrivals_s, strict=True)):
            wait_s = planned_s - (time.perf_counter() - start)
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            lags.append(time.perf_counter() - start - planned_s)
            record = RequestRecord(index, planned_s, input_tokens=prompt.input_len)
            tasks.append(group.create_task(one(prompt, record)))
    records = tuple(task.result() for task in tasks)
    first_s = min(record.sent_s for record in records)
    last_s = max(record.sent_s + record.e2el_s for record in records)
    return Load(records, last_s - first_s, gauge.peak, max(lags))
