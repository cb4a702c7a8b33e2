"""Services without an engine, an app over them with one JSON route, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from infer_api.errors import EngineDeadError, RequestError
from infer_api.requests import EngineHealth, EngineStats
from infer_api.services import Limits, ModelCard, Services
from infer_server.app import make_app

LIMITS = Limits(max_body_bytes=4096, max_n=8, max_logprobs=20, max_stop=4, max_logit_bias=10, max_prompts=8)


@dataclass
class FakeEngine:
    """Only what the server asks of an engine."""

    state: EngineHealth = field(default_factory=lambda: EngineHealth(ready=True))
    dead: str = ""
    closed: bool = False

    async def health(self) -> EngineHealth:
        return EngineHealth(ready=False, reason=self.dead) if self.dead else self.state

    async def stats(self) -> EngineStats:
        if self.dead:
            raise EngineDeadError(self.dead)
        names = EngineStats.__struct_fields__
        return EngineStats(**{name: 12_288 if name == "capacity_tokens" else 0 for name in names})

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
def make_services(engine: FakeEngine) -> Callable[..., Services]:
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
        )

    return make


@pytest.fixture
def make_client(make_services: Callable[..., Services]) -> Callable[..., httpx.AsyncClient]:
    def make(*keys: str, allowed_origins: tuple[str, ...] = ()) -> httpx.AsyncClient:
        app = make_app(make_services(*keys), [note_router()], allowed_origins=allowed_origins)
        # Starlette raises a handled 500 once more for the server's log; the client is interested in the reply.
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://server")

    return make


@pytest.fixture
async def client(make_client: Callable[..., httpx.AsyncClient]) -> AsyncIterator[httpx.AsyncClient]:
    async with make_client() as opened:
        yield opened


@pytest.fixture
def routers() -> list[tuple[str, APIRouter]]:
    return [("note", note_router())]
