"""The engine on a thread of this process."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import AsyncIterator, Sequence
from typing import Any

from infer.engine.loop import (
    Abort,
    Answer,
    AskStats,
    Command,
    Control,
    EngineLoop,
    Refused,
    ResetCache,
    Stop,
    control_values,
)
from infer.engine.router import OnDeath, OutputRouter
from infer.engine.start import EngineFacts, EngineSpec, Progress, load_engine
from infer.engine.vitals import Patience, Vitals, WorkClock
from infer_api.errors import EngineDeadError
from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats

__all__ = ["InlineClient"]

_log = logging.getLogger(__name__)

_STOP_LIMIT_S = 10.0
_TICK_S = 0.25


class _LoopSink:
    """Carries results from the engine's thread to the event loop, one wake-up per step."""

    def __init__(self, loop: asyncio.AbstractEventLoop, router: OutputRouter) -> None:
        self._loop = loop
        self._router = router

    def outputs(self, outputs: Sequence[EngineOutput]) -> None:
        self._loop.call_soon_threadsafe(self._router.deliver, outputs)

    def refused(self, refused: Refused) -> None:
        self._loop.call_soon_threadsafe(self._router.refuse, refused.request_id, refused.to_error())

    def answer(self, answer: Answer) -> None:
        self._loop.call_soon_threadsafe(self._router.answer, answer)


class InlineClient:
    """EngineClient whose engine runs on a thread here; `start` loads the model on that thread.

    The model is built and stepped by one thread, since torch keeps a pool of compute threads per caller.
    """

    def __init__(self, patience: Patience | None = None, on_death: OnDeath = lambda reason: reason) -> None:
        self._router = OutputRouter(on_death)
        self._vitals = Vitals(patience or Patience())
        self._watcher: asyncio.Task[None] | None = None
        self._engine_loop: EngineLoop | None = None
        self._thread: threading.Thread | None = None
        self._is_abandoned = False

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts:
        """Load the engine. Raises what loading raised."""
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[EngineFacts] = loop.create_future()
        self._thread = threading.Thread(
            target=self._run, args=(spec, progress, loop, ready), name="infer-engine", daemon=True
        )
        self._thread.start()
        try:
            facts = await ready
            assert self._engine_loop is not None
            self._watcher = asyncio.create_task(self._watch(self._engine_loop))
            return facts
        except BaseException:
            self._is_abandoned = True  # also when the caller was cancelled
            # An interpreter that ends under a thread in compiled code aborts the process.
            await asyncio.to_thread(self._thread.join)
            raise

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        return self._router.stream(request, self._send)

    async def abort(self, request_ids: Sequence[str]) -> None:
        if self._router.dead is None:
            await self._send(Abort(list(request_ids)))

    async def stats(self) -> EngineStats:
        stats: EngineStats = await self._router.ask(AskStats, self._send)
        return stats

    async def reset_cache(self) -> bool:
        return bool(await self._router.ask(ResetCache, self._send))

    async def control(self, name: str, **args: Any) -> Any:
        values = control_values(name, args)
        return await self._router.ask(lambda ticket: Control(ticket, name, values), self._send)

    async def health(self) -> EngineHealth:
        if self._router.dead is not None:
            return EngineHealth(ready=False, reason=self._router.dead, dead=True)
        complaint = self._vitals.complaint()
        return EngineHealth(ready=self._engine_loop is not None and not complaint, reason=complaint)

    async def close(self) -> None:
        """Raises EngineDeadError when the thread of a dead engine does not end: what it holds stays held."""
        was_dead = self._router.dead is not None
        self._router.die("the engine was closed")
        if self._engine_loop is not None:
            self._engine_loop.commands.put(Stop())
        if self._watcher is not None:
            self._watcher.cancel()
            self._watcher = None
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _STOP_LIMIT_S if was_dead else None)
            if self._thread.is_alive():
                raise EngineDeadError(f"{self._router.dead}; its thread goes on and cannot be ended from outside")
        self._engine_loop = None  # with this and the watcher goes the memory of the model

    async def _watch(self, engine_loop: EngineLoop) -> None:
        """Tell those who wait when a step never ends. Its thread cannot be ended from here."""
        clock = WorkClock(_TICK_S)
        while self._router.dead is None:
            await asyncio.sleep(_TICK_S)
            self._vitals.step_s = clock.tick(engine_loop.work)
            if verdict := self._vitals.verdict():
                self._router.die(verdict)

    async def _send(self, command: Command) -> None:
        if self._engine_loop is None:
            raise EngineDeadError("the engine has not been started")
        self._engine_loop.commands.put(command)

    def _run(
        self,
        spec: EngineSpec,
        progress: Progress | None,
        loop: asyncio.AbstractEventLoop,
        ready: asyncio.Future[EngineFacts],
    ) -> None:
        try:
            engine, facts, executor = load_engine(spec, self._interruptible(progress))
        except BaseException as error:  # noqa: BLE001 - plugin code of any kind; handed to whoever awaits `start`
            if not self._is_abandoned:
                loop.call_soon_threadsafe(_fail, ready, error)
            return
        if self._is_abandoned:
            executor.shutdown()
            return
        self._engine_loop = EngineLoop(engine, executor, _LoopSink(loop, self._router))
        loop.call_soon_threadsafe(self._say_ready, ready, facts)
        try:
            self._engine_loop.run()
        except BaseException as error:  # noqa: BLE001 - plugin code of any kind; everybody who waits is told
            _log.exception("the engine has stopped")
            # Whoever keeps the record of it keeps these frames, and through them the model.
            traceback.clear_frames(error.__traceback__)
            loop.call_soon_threadsafe(self._router.die, f"the engine has stopped: {type(error).__name__}: {error}")
        finally:
            executor.shutdown()
            del engine, executor

    def _interruptible(self, progress: Progress | None) -> Progress:
        """`progress` that ends the loading once nobody waits for it."""

        def report(what: str, done: int, total: int) -> None:
            if self._is_abandoned:
                raise EngineDeadError("loading was interrupted")
            if progress is not None:
                progress(what, done, total)

        return report

    def _say_ready(self, ready: asyncio.Future[EngineFacts], facts: EngineFacts) -> None:
        if ready.done():  # cancelled between the end of loading and now
            assert self._engine_loop is not None
            self._engine_loop.commands.put(Stop())
        else:
            ready.set_result(facts)


def _fail(ready: asyncio.Future[EngineFacts], error: BaseException) -> None:
    if not ready.done():
        ready.set_exception(error)
