"""Services over an engine that a test can stop, the app with the routes, and a scrape as samples."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from infer_api.errors import EngineDeadError
from infer_api.requests import EngineHealth, EngineStats, SamplingParams
from infer_api.services import Limits, ModelCard, RequestRecord, Services
from infer_metrics_prometheus.options import MetricsOptions
from infer_metrics_prometheus.routes import MetricsRoutes

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
NOTHING = EngineStats(**dict.fromkeys(EngineStats.__struct_fields__, 0))
CARD = ModelCard(id="tiny", aliases=(), max_model_len=64, vocab_size=257, created_s=1, has_chat_template=True)


@dataclass
class FakeEngine:
    """Says what it is told to; `dead` raises, `stuck` never answers."""

    now: EngineStats = NOTHING
    state: EngineHealth = field(default_factory=lambda: EngineHealth(ready=True))
    dead: bool = False
    stuck: bool = False
    num_asked: int = 0

    async def stats(self) -> EngineStats:
        self.num_asked += 1
        await self._answer()
        return self.now

    async def health(self) -> EngineHealth:
        await self._answer()
        return self.state

    async def _answer(self) -> None:
        if self.dead:
            raise EngineDeadError("the engine was killed")
        await asyncio.sleep(60 if self.stuck else 0)

    def has(self, **values: int) -> None:
        self.now = msgspec.structs.replace(self.now, **values)


@dataclass
class OpenGuard:
    def allows(self, authorization: str | None) -> bool:
        return True


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def hooks() -> list[tuple[Any, str]]:
    """What the plugin has registered."""
    return []


@pytest.fixture
def services(engine: FakeEngine, hooks: list[tuple[Any, str]]) -> Services:
    plugin = {"kind": "models", "name": "llama", "distribution": "infer-model-llama", "version": "0.1.0"}
    return Services(
        engine=engine,
        renderer=None,
        outputs=None,
        models=(CARD,),
        guard=OpenGuard(),
        limits=Limits(**dict.fromkeys(Limits.__dataclass_fields__, 65_536)),
        version="0.1.0",
        fingerprint="fp_1",
        plugins=({**plugin, "state": "selected", "summary": "Llama.", "reason": ""},),
        add_hooks=lambda each, name: hooks.append((each, name)),
    )


@pytest.fixture
def client(services: Services) -> httpx.AsyncClient:
    app = FastAPI()
    app.include_router(MetricsRoutes(MetricsOptions()).router(services))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://server")


@pytest.fixture
def counter(client: httpx.AsyncClient, hooks: list[tuple[Any, str]]) -> Any:
    """The registered object with the hooks."""
    ((registered, _),) = hooks
    return registered


@pytest.fixture
def scrape(client: httpx.AsyncClient) -> Callable[[], Awaitable[Samples]]:
    """Samples of one scrape by (name, labels)."""

    async def scraped() -> Samples:
        reply = await client.get("/metrics")
        assert reply.status_code == 200
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(reply.text)
            for sample in family.samples
        }

    return scraped


@pytest.fixture
def finish(counter: Any) -> Callable[..., None]:
    """Tells the hooks of one request's end."""

    def tell(request_id: str, reason: str = "stop", **changes: Any) -> None:
        facts: dict[str, Any] = {
            "num_prompt_tokens": 5,
            "num_cached_tokens": 0,
            "num_generated_tokens": 3,
            "arrival_s": 1_700_000_000.0,
            "queued_s": 0.002,
            "first_token_s": 0.2,
            "total_s": 0.4,
            "gaps_s": (0.1, 0.1),
            **changes,
        }
        record = RequestRecord(
            request_id=request_id,
            call_id="cmpl-1",
            client_id="",
            model="tiny",
            finish_reason=reason,
            sampling=SamplingParams(),
            **facts,
        )
        counter.infer_request_finished(request_id=request_id, finish_reason=reason, record=record)

    return tell
