"""An engine that dies and is started again, in this process and in one of its own."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from infer.engine import inline_client, supervisor
from infer.engine.inline_client import InlineClient
from infer.engine.process_client import ProcessClient
from infer.engine.router import OnDeath
from infer.engine.start import EngineFacts, EngineSpec, Progress
from infer.engine.supervisor import Supervisor
from infer.engine.vitals import Patience
from infer_api.errors import ConfigError, EngineDeadError, RequestError
from infer_api.requests import EngineRequest, SamplingParams
from infer_testkit.executor import scripted_spec

BOTH = pytest.mark.parametrize("kind", [InlineClient, ProcessClient])


def make_request(name: str, max_tokens: int = 2) -> EngineRequest:
    return EngineRequest(
        request_id=name, prompt_ids=[1, 2, 3], sampling=SamplingParams(max_tokens=max_tokens), vocab_size=97
    )


async def tokens_of(client: Any, name: str, max_tokens: int = 2) -> list[int]:
    return [token async for output in client.generate(make_request(name, max_tokens)) for token in output.token_ids]


class Row:
    """Makes one client after the other, and keeps them; `later` is the kind of all but the first."""

    def __init__(self, kind: type[Any], later: type[Any] | None = None, patience: Patience | None = None) -> None:
        self.kinds = [kind]
        self.later = later or kind
        self.patience = patience
        self.made: list[Any] = []

    def __call__(self, on_death: OnDeath) -> Any:
        kind = self.kinds.pop() if self.kinds else self.later
        self.made.append(kind(self.patience, on_death))
        return self.made[-1]


@asynccontextmanager
async def supervised(row: Row, max_restarts: int = 3, **config: Any) -> AsyncIterator[Supervisor]:
    client = Supervisor(row, max_restarts)
    await client.start(scripted_spec(**config))
    try:
        yield client
    finally:
        await client.close()


async def until(client: Supervisor, *, ready: bool = False, dead: bool = False) -> str:
    for _ in range(500):
        health = await client.health()
        if (health.ready, health.dead) == (ready, dead):
            return health.reason
        await asyncio.sleep(0.02)
    raise AssertionError(f"still {health}")


class Flaky(InlineClient):
    """Fails at its first two starts."""

    failures = 2

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts:
        if Flaky.failures:
            Flaky.failures -= 1
            raise RuntimeError("not yet")
        return await super().start(spec, progress)


@BOTH
async def test_an_engine_that_breaks_is_started_again_with_its_controls(kind: type[Any]) -> None:
    async with supervised(Row(kind), break_at=5, start_delay_s=0.2) as client:
        assert await client.control("set_vocabulary", tokens=["a", "b"]) == 0
        pending = [asyncio.create_task(tokens_of(client, f"r{i}", 20)) for i in range(6)]
        results = await asyncio.gather(*pending, return_exceptions=True)
        assert all(isinstance(each, EngineDeadError) and "breaks here" in str(each) for each in results), results
        assert all("it is being restarted" in str(each) for each in results)
        assert "restarting" in await until(client, ready=False)
        with pytest.raises(RequestError) as caught:
            await tokens_of(client, "meanwhile")
        assert (caught.value.status, caught.value.code) == (503, "engine_restarting")
        assert caught.value.retry_after_s is not None
        assert caught.value.retry_after_s >= 1
        with pytest.raises(RequestError):
            await client.stats()
        await client.abort(["r1"])
        await until(client, ready=True)
        assert len(await tokens_of(client, "later")) == 2
        assert await client.control("set_vocabulary", tokens=["c"]) == 2, "the new engine has not got the vocabulary"


async def test_a_killed_process_is_replaced_by_another() -> None:
    row = Row(ProcessClient)
    async with supervised(row, step_delay_s=0.02) as client:
        pending = asyncio.create_task(tokens_of(client, "r", 50))
        await asyncio.sleep(0.1)
        os.kill(row.made[0].pid, signal.SIGKILL)
        with pytest.raises(EngineDeadError, match=r"exit code -9; it is being restarted"):
            await asyncio.wait_for(pending, 5)
        await until(client, ready=True)
        assert len(await tokens_of(client, "later")) == 2
        assert row.made[0].pid != row.made[1].pid


async def test_a_stopped_process_is_killed_and_replaced() -> None:
    row = Row(ProcessClient, patience=Patience(silence_s=1.0, kill_s=2.0))
    async with supervised(row) as client:
        os.kill(row.made[0].pid, signal.SIGSTOP)
        assert "no sign of life" in await until(client, ready=False)
        with pytest.raises(EngineDeadError, match="was killed; it is being restarted"):
            await asyncio.wait_for(tokens_of(client, "r"), 5)
        await until(client, ready=True)
        assert len(await tokens_of(client, "later")) == 2


@BOTH
async def test_an_engine_that_dies_too_often_stays_dead(kind: type[Any]) -> None:
    async with supervised(Row(kind), max_restarts=1, break_at=3) as client:
        for name in ("first", "second"):
            await until(client, ready=True)
            with pytest.raises(EngineDeadError):
                await tokens_of(client, name, 20)
        assert "after 1 restarts within ten minutes" in await until(client, dead=True)
        with pytest.raises(EngineDeadError, match="stays down"):
            await tokens_of(client, "late")


@pytest.mark.parametrize(("max_restarts", "recovers"), [(3, True), (2, False)])
async def test_a_restart_that_fails_is_tried_again_within_the_limit(
    max_restarts: int, recovers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_PAUSE_S", 0.01)
    monkeypatch.setattr(Flaky, "failures", 2)
    async with supervised(Row(InlineClient, Flaky), max_restarts, break_at=3) as client:
        with pytest.raises(EngineDeadError):
            await tokens_of(client, "r", 20)
        reason = await until(client, ready=recovers, dead=not recovers)
        assert recovers or "not yet" in reason


async def test_the_memory_of_a_dead_engine_in_this_process_is_freed() -> None:
    row = Row(InlineClient)
    async with supervised(row, break_at=3) as client:
        engine = weakref.ref(row.made[0]._engine_loop._engine)
        executor = weakref.ref(row.made[0]._engine_loop._executor)
        with pytest.raises(EngineDeadError):
            await tokens_of(client, "r", 20)
        await until(client, ready=True)
        gc.disable()
        try:
            assert engine() is None
            assert executor() is None
        finally:
            gc.enable()


async def test_a_thread_that_is_stuck_for_ever_is_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline_client, "_STOP_LIMIT_S", 0.1)
    monkeypatch.setattr(supervisor, "_PAUSE_S", 0.01)
    row = Row(InlineClient, patience=Patience(step_s=0.25))
    client = Supervisor(row, 2)
    await client.start(scripted_spec(hang_at=1, hang_s=2.0))
    with pytest.raises(EngineDeadError, match="stuck in a step"):
        await asyncio.wait_for(tokens_of(client, "r", 20), 2)
    assert "cannot be ended from outside" in await until(client, dead=True)
    with pytest.raises(EngineDeadError, match="cannot be ended"):
        await client.close()
    await asyncio.to_thread(row.made[0]._thread.join)


@BOTH
async def test_a_supervisor_that_is_closed_during_a_restart_leaves_nothing_behind(kind: type[Any]) -> None:
    row = Row(kind)
    async with supervised(row, break_at=3, start_delay_s=0.3) as client:
        with pytest.raises(EngineDeadError):
            await tokens_of(client, "r", 20)
        while len(row.made) < 2:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
    assert (await client.health()).dead
    last = row.made[-1]
    assert not (last._thread if kind is InlineClient else last._process).is_alive()
    with pytest.raises(EngineDeadError):
        await tokens_of(client, "late")


async def test_a_first_start_that_fails_raises_and_is_not_repeated() -> None:
    row = Row(InlineClient)
    with pytest.raises(ConfigError, match="no room"):
        await Supervisor(row, 3).start(scripted_spec(refuse="no room"))
    assert len(row.made) == 1
