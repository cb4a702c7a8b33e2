"""Starts the engine again when it dies: `--on-engine-death restart`."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Protocol

from infer.engine.router import OnDeath
from infer.engine.start import EngineFacts, EngineSpec, Progress
from infer_api.errors import EngineDeadError, InferError, RequestError
from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats
from infer_api.services import EngineClient

__all__ = ["MakeClient", "StartableClient", "Supervisor"]

_log = logging.getLogger(__name__)

_WINDOW_S = 600.0
_PAUSE_S = 1.0
"""Between a restart that failed and the next one."""


class StartableClient(EngineClient, Protocol):
    """A client that starts its own engine; it closes itself when that fails."""

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts: ...


MakeClient = Callable[[OnDeath], StartableClient]
"""Makes a client that has not been started, and will tell when its engine is gone."""


class Supervisor:
    """EngineClient over a row of clients, one after the other.

    When the engine dies, its requests fail with EngineDeadError and a new one is started from the same specification;
    until that serves, requests are refused with 503. After `max_restarts` within ten minutes, those that failed
    included, it stays dead.
    """

    def __init__(self, make: MakeClient, max_restarts: int) -> None:
        self._make = make
        self._max_restarts = max_restarts
        self._client: StartableClient | None = None
        self._down = "it has not been started"
        self._is_dead = False
        self._is_closing = False
        self._restarting: asyncio.Task[None] | None = None
        self._restarts: deque[float] = deque()
        self._controls: dict[str, dict[str, Any]] = {}
        self._start_took_s = 0.0
        self._spec: EngineSpec

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts:
        """Start the first engine. Raises what its client raises."""
        self._spec = spec
        return await self._launch(progress)

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        try:
            return self._serving().generate(request)
        except InferError as error:
            return _refusal(error)

    async def abort(self, request_ids: Sequence[str]) -> None:
        if not self._down:
            await self._serving().abort(request_ids)

    async def stats(self) -> EngineStats:
        return await self._serving().stats()

    async def reset_cache(self) -> bool:
        return await self._serving().reset_cache()

    async def control(self, name: str, **args: Any) -> Any:
        """As of the client; once it has worked, every engine that is started later gets the call too."""
        result = await self._serving().control(name, **args)
        self._controls[name] = args
        return result

    async def health(self) -> EngineHealth:
        if self._down:
            return EngineHealth(ready=False, reason=self._down, dead=self._is_dead)
        return await self._serving().health()

    async def close(self) -> None:
        self._is_closing = True
        if self._restarting is not None:
            self._restarting.cancel()
            await asyncio.gather(self._restarting, return_exceptions=True)
        if self._client is not None:
            await self._client.close()
        self._down, self._is_dead = self._down or "the engine was closed", True

    def _serving(self) -> StartableClient:
        if self._is_dead:
            raise EngineDeadError(self._down)
        if self._down or self._client is None:
            come_back_s = max(1.0, self._start_took_s)
            raise RequestError(self._down, code="engine_restarting", status=503, retry_after_s=come_back_s)
        return self._client

    async def _launch(self, progress: Progress | None = None) -> EngineFacts:
        began = time.monotonic()
        client = self._make(self._on_death)
        facts = await client.start(self._spec, progress)
        try:
            for name, args in self._controls.items():
                await client.control(name, **args)
            health = await client.health()
            if health.dead:
                raise EngineDeadError(health.reason)
        except BaseException:
            await client.close()
            raise
        # Nothing was awaited since the look at its health, so a death from here on is heard.
        self._client, self._down = client, ""
        self._start_took_s = time.monotonic() - began
        return facts

    def _on_death(self, reason: str) -> str:
        if self._down or self._is_closing:
            return reason  # whoever starts or closes the engine is told there
        if self._try_again(reason):
            self._down = f"restarting: {reason}"
            self._restarting = asyncio.create_task(self._restart())
            return f"{reason}; it is being restarted"
        return self._down

    def _try_again(self, reason: str) -> bool:
        """Whether one more restart is within the limit; where it is not, the engine stays dead."""
        now = time.monotonic()
        while self._restarts and now - self._restarts[0] > _WINDOW_S:
            self._restarts.popleft()
        if len(self._restarts) < self._max_restarts:
            self._restarts.append(now)
            return True
        self._give_up(f"{reason}; after {len(self._restarts)} restarts within ten minutes it stays down")
        return False

    def _give_up(self, why: str) -> None:
        _log.error("%s", why)
        self._down, self._is_dead = why, True

    async def _restart(self) -> None:
        """Put a new engine in the place of the dead one."""
        _log.warning("%s", self._down)
        while True:
            try:
                await self._drop()
                facts = await self._launch()
            except Exception as error:  # noqa: BLE001 - of any kind, also a lack of memory that passes
                _log.exception("a restart of the engine has failed")
                if not self._try_again(f"the engine cannot be started again: {error}"):
                    return
                await asyncio.sleep(_PAUSE_S)
            else:
                tokens = facts.capacity_tokens
                _log.warning(
                    "the engine serves again after %.1f s, with a KV cache of %d tokens", self._start_took_s, tokens
                )
                return

    async def _drop(self) -> None:
        """Close the dead engine's client and free what it held, for the next one needs the room."""
        if self._client is not None:
            await self._client.close()
            self._client = None
            gc.collect()


async def _refusal(error: InferError) -> AsyncIterator[EngineOutput]:
    """A stream that raises at its first iteration, as those of clients do."""
    raise error
    yield  # type: ignore[unreachable]  # makes it a generator
