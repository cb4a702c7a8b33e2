"""Metrics of the engine: asked at each scrape, and left out when it does not answer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from infer_api.errors import InferError
from infer_api.requests import EngineStats
from infer_api.services import EngineClient

__all__ = ["ANSWER_LIMIT_S", "EngineProbe", "EngineTotals", "EngineView", "engine_metrics"]

ANSWER_LIMIT_S = 1.5
"""A scrape waits no longer for the engine; scrapers give up after some seconds."""

_COUNTERS = {
    "prompt_tokens": ("prompt_tokens", "Tokens of prompts that were admitted."),
    "generated_tokens": ("generated_tokens", "Tokens generated."),
    "cached_tokens": ("cached_prompt_tokens", "Tokens of prompts that were found in the prefix cache."),
    "num_preemptions": ("preemptions", "Sequences that gave up their KV blocks and were computed again."),
    "num_steps": ("steps", "Steps of the engine."),
    "num_failed_rows": ("failed_rows", "Rows that a step could not sample, such as those with scores not finite."),
}
"""Field of EngineStats -> name without `infer_` and `_total`, and help."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class EngineView:
    """What one scrape shows: `totals` are the counters over all lives of the engine, by field of EngineStats."""

    ready: bool
    stats: EngineStats | None = None
    totals: dict[str, float] = field(default_factory=dict)


class EngineTotals:
    """Counters that only grow, also when an engine that was started again counts from zero."""

    def __init__(self) -> None:
        self._before = dict.fromkeys(_COUNTERS, 0.0)
        self._last = dict.fromkeys(_COUNTERS, 0.0)
        self._life_s = 0.0

    def after(self, stats: EngineStats) -> dict[str, float]:
        """The totals now. What an engine counted between its last answer and its death is not known."""
        current = {name: float(getattr(stats, name)) for name in _COUNTERS}
        if stats.started_s != self._life_s:
            self._before = {name: self._before[name] + self._last[name] for name in _COUNTERS}
        self._last, self._life_s = current, stats.started_s
        return {name: self._before[name] + current[name] for name in _COUNTERS}


class EngineProbe:
    """Asks the engine. Scrapes that come at the same time share one question, so answers cannot overtake."""

    def __init__(self, engine: EngineClient, limit_s: float = ANSWER_LIMIT_S) -> None:
        self._engine = engine
        self._limit_s = limit_s
        self._totals = EngineTotals()
        self._asking: asyncio.Task[EngineView] | None = None

    async def view(self) -> EngineView:
        """How the engine is now; raises nothing, whatever state it is in, and takes at most `limit_s`."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await asyncio.shield(self._asking)

    async def _ask(self) -> EngineView:
        ready, stats = await asyncio.gather(self._is_ready(), self._stats())
        return EngineView(ready, stats, self._totals.after(stats) if stats is not None else {})

    async def _is_ready(self) -> bool:
        try:
            async with asyncio.timeout(self._limit_s):
                return (await self._engine.health()).ready
        except (TimeoutError, InferError) as error:
            _log.debug("the engine does not tell its health: %r", error)
            return False

    async def _stats(self) -> EngineStats | None:
        try:
            async with asyncio.timeout(self._limit_s):
                return await self._engine.stats()
        except (TimeoutError, InferError) as error:
            _log.debug("the engine does not tell its statistics: %r", error)
            return None


def engine_metrics(view: EngineView) -> Iterator[Metric]:
    """The families of one view. Without an answer of the engine there are only the two that say so."""
    yield _gauge("engine_ready", "Whether a request would be served now, as /ready says.", view.ready)
    yield _gauge(
        "engine_up",
        "Whether the engine answered this scrape; if not, its metrics are left out.",
        view.stats is not None,
    )
    if view.stats is not None:
        yield from _gauges(view.stats)
        for name, value in view.totals.items():
            short, text = _COUNTERS[name]
            yield CounterMetricFamily(f"infer_{short}", text, value)


def _gauges(stats: EngineStats) -> Iterator[Metric]:
    live = stats.num_blocks - stats.num_free_blocks
    cached = stats.num_cached_blocks
    yield _gauge("requests_running", "Sequences that are being computed.", stats.num_running)
    yield _gauge("requests_waiting", "Sequences that wait in the engine.", stats.num_waiting)
    blocks = GaugeMetricFamily(
        "infer_kv_blocks", "KV blocks: in use, kept to be found again, or empty.", labels=["state"]
    )
    for state, many in (("live", live), ("cached", cached), ("free", stats.num_free_blocks - cached)):
        blocks.add_metric([state], many)
    yield blocks
    # An engine without blocks has none in use.
    yield _gauge("kv_usage_ratio", "Share of the KV blocks that is in use, 0 to 1.", live / max(1, stats.num_blocks))
    yield _gauge(
        "kv_cached_ratio",
        "Share of the KV blocks that is only kept to be found again, 0 to 1.",
        cached / max(1, stats.num_blocks),
    )


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"infer_{name}", text, float(value))
