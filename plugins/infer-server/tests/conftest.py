"""Services without an engine, an app over them with one JSON route, and a client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import EngineHealth, EngineStats
from infer_api.services import Limits, ModelCard, Services
from infer_server import serving
from infer_server.app import make_app
from infer_server.listen import open_socket, url_of

LIMITS = Limits(
    max_body_bytes=4096,
    max_n=8,
    max_logprobs=20,
    max_stop=4,
    max_logit_bias=10,
    max_prompts=8,
    max_bad_words=8,
    max_token_ids=50,
    max_sequences=10_000,
    max_prompt_tokens=None,
    max_json_depth=100,
)


@dataclass
class FakeEngine:
    """Only what the server asks of an engine."""

    state: EngineHealth = field(default_factory=lambda: EngineHealth(ready=True))
    dead: str = ""
    is_busy: bool = False
    closed: bool = False

    async def health(self) -> EngineHealth:
        return EngineHealth(ready=False, reason=self.dead, dead=True) if self.dead else self.state

    async def stats(self) -> EngineStats:
        if self.dead:
            raise EngineDeadError(self.dead)
        names = EngineStats.__struct_fields__
        return EngineStats(**{name: 12_288 if name == "capacity_tokens" else 0 for name in names})

    async def reset_cache(self) -> bool:
        return not self.is_busy

    async def close(self) -> None:
        self.closed = True


@dataclass
class KeyGuard:
    keys: frozenset[str] = frozenset()

    def allows(self, authorization: str | None) -> bool:
        return not self.keys or (authorization or "").removeprefix("Bearer ") in self.keys


class Note(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    text: str
    counts: list[int] = []


def note_router() -> APIRouter:
    """One route that takes JSON and answers with it, and others that fail in each known way."""
    router = APIRouter()
    failures = {
        "refused": RequestError("stop: 9 strings, 4 are allowed", param="stop", code="too_many", status=422),
        "dead": EngineDeadError("the worker was killed"),
        "bug": KeyError("secret detail"),
        "full": RequestError("4096 requests wait", code="queue_full", status=503, retry_after_s=2.3),
    }

    @router.post("/note")
    async def note(body: Note) -> Any:
        return {"text": body.text, "counts": body.counts}

    @router.get("/fail/{how}")
    async def fail(how: str) -> Any:
        raise failures[how]

    return router


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine()


@pytest.fixture
def told() -> list[tuple[str, dict[str, Any]]]:
    """What was told to hooks."""
    return []


@pytest.fixture
def make_services(engine: FakeEngine, told: list[tuple[str, dict[str, Any]]]) -> Callable[..., Services]:
    def make(*keys: str) -> Services:
        card = ModelCard(
            id="tiny", aliases=("small",), max_model_len=2048, vocab_size=300, created_s=1, has_chat_template=True
        )
        return Services(
            engine=engine,
            renderer=None,
            outputs=None,
            models=(card,),
            guard=KeyGuard(frozenset(keys)),
            limits=LIMITS,
            version="0.1.0",
            fingerprint="abc123",
            plugins=({"kind": "routes", "name": "note", "state": "loaded"},),
            tell=lambda hook, **facts: told.append((hook, facts)),
        )

    return make


@pytest.fixture
def make_client(make_services: Callable[..., Services]) -> Callable[..., httpx.AsyncClient]:
    def make(*keys: str, routers: Sequence[APIRouter] = (), **options: Any) -> httpx.AsyncClient:
        app = make_app(make_services(*keys), [note_router(), *routers], **options)
        # Starlette raises a handled 500 once more for the server's log; the client is interested in the reply.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://server")

    return make


@pytest.fixture
async def client(make_client: Callable[..., httpx.AsyncClient]) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as opened:
        yield opened


@pytest.fixture
def settings() -> SimpleNamespace:
    """The options of the group `server` that the command looks at."""
    return SimpleNamespace(
        host="127.0.0.1",
        port=0,
        allowed_origins=(),
        docs=True,
        tls_certificate=None,
        tls_key=None,
        max_connections=64,
        max_requests=64,
        header_timeout_s=5.0,
        body_timeout_s=5.0,
        idle_timeout_s=5.0,
        write_timeout_s=5.0,
        max_header_bytes=16_384,
        shutdown_timeout_s=5.0,
    )


@pytest.fixture
def routers() -> list[tuple[str, APIRouter]]:
    return [("note", note_router())]


@dataclass
class FakeContext:
    """A command context whose model 'loads' until `loaded` is set."""

    services: Services
    mounted: list[tuple[str, Any]]
    settings: SimpleNamespace
    loaded: asyncio.Event = field(default_factory=asyncio.Event)
    fails: Exception | None = None
    said: list[str] = field(default_factory=list)

    @property
    def config(self) -> Any:
        return SimpleNamespace(server=self.settings)

    @asynccontextmanager
    async def open_services(self) -> AsyncIterator[Services]:
        await self.loaded.wait()
        if self.fails:
            raise self.fails
        try:
            yield self.services
        finally:
            await self.services.engine.close()

    def routes(self, services: Services) -> list[tuple[str, Any]]:
        return self.mounted

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
async def context(
    make_services: Callable[..., Services], routers: list[tuple[str, Any]], settings: SimpleNamespace
) -> FakeContext:
    return FakeContext(make_services(), routers, settings)


@pytest.fixture
def running() -> Callable[..., AbstractAsyncContextManager[tuple[asyncio.Task[int], httpx.AsyncClient]]]:
    """Runs `serve` over a real socket, beside a client of it."""

    @asynccontextmanager
    async def run(
        context: FakeContext, tls: Any = None, verify: Any = True
    ) -> AsyncIterator[tuple[asyncio.Task[int], httpx.AsyncClient]]:
        with open_socket("127.0.0.1", 0) as listener:
            url = url_of(listener, "https" if tls else "http")
            async with httpx.AsyncClient(base_url=url, timeout=10, verify=verify, trust_env=False) as client:
                task = asyncio.create_task(serving.serve(context, listener, tls))
                try:
                    yield task, client
                finally:
                    task.cancel()
                    await asyncio.wait({task})

    return run


@pytest.fixture
def until_ready() -> Callable[[httpx.AsyncClient], Awaitable[None]]:
    async def wait(client: httpx.AsyncClient) -> None:
        for _ in range(200):
            if (await client.get("/ready")).status_code == 200:
                return
            await asyncio.sleep(0.02)
        raise AssertionError("the server did not get ready")

    return wait
