"""Both clients over the same scripted engine: in this process, and in one of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infer.engine.inline_client import InlineClient
from infer.engine.process_client import ProcessClient
from infer.engine.vitals import Patience
from infer_api.errors import ConfigError, EngineDeadError, InferError, RequestError
from infer_api.requests import EngineRequest, SamplingParams
from infer_testkit.executor import next_token, scripted_spec

Client = InlineClient | ProcessClient
BOTH = pytest.mark.parametrize("kind", [InlineClient, ProcessClient])


@asynccontextmanager
async def started(kind: type[Client], patience: Patience | None = None, **config: Any) -> AsyncIterator[Any]:
    client = kind(patience)
    await client.start(scripted_spec(**config))
    try:
        yield client
    finally:
        await client.close()


def make_request(name: str, length: int = 5, max_tokens: int = 12) -> EngineRequest:
    return EngineRequest(
        request_id=name, prompt_ids=list(range(length)), sampling=SamplingParams(max_tokens=max_tokens), vocab_size=97
    )


def expected(request: EngineRequest) -> list[int]:
    tokens = list(request.prompt_ids)
    for _ in range(request.sampling.max_tokens or 0):
        tokens.append(next_token(tokens, 97))
    return tokens[len(request.prompt_ids) :]


async def tokens_of(client: Any, request: EngineRequest) -> list[int]:
    return [token async for output in client.generate(request) for token in output.token_ids]


async def until_idle(client: Any) -> None:
    for _ in range(200):
        stats = await client.stats()
        # Blocks come back when the last step that names them has retired, a moment after the request ended.
        if stats.num_running == stats.num_waiting == 0 and stats.num_free_blocks == stats.num_blocks:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("the engine still holds requests")


async def until_unready(client: Any) -> str:
    for _ in range(250):
        health = await client.health()
        if not health.ready:
            return str(health.reason)
        await asyncio.sleep(0.02)
    raise AssertionError("the engine still counts as ready")


@BOTH
async def test_many_requests_at_once_each_get_their_own_tokens(kind: type[Client]) -> None:
    requests = [make_request(f"r{i}", length=1 + i, max_tokens=3 + i) for i in range(12)]
    async with started(kind) as client:
        results = await asyncio.gather(*(tokens_of(client, request) for request in requests))
        await until_idle(client)
    assert results == [expected(request) for request in requests]


@BOTH
async def test_closing_the_iterator_early_aborts_the_request(kind: type[Client]) -> None:
    async with started(kind, step_delay_s=0.01) as client:
        stream = client.generate(make_request("r", max_tokens=50))
        async for _ in stream:
            break
        await stream.aclose()
        await until_idle(client)
        assert (await client.stats()).generated_tokens < 40


@BOTH
async def test_a_refused_request_raises_with_its_reason_and_the_engine_goes_on(kind: type[Client]) -> None:
    async with started(kind) as client:
        with pytest.raises(RequestError, match="at most 63 fit") as caught:
            await tokens_of(client, make_request("long", length=64))
        assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")
        good = make_request("good")
        assert await tokens_of(client, good) == expected(good)


@BOTH
async def test_a_start_that_fails_raises_the_error_of_the_engine(kind: type[Client]) -> None:
    with pytest.raises(ConfigError, match="no room"):
        await kind().start(scripted_spec(refuse="no room"))


@BOTH
async def test_an_engine_that_breaks_ends_every_request_and_takes_no_new_one(
    kind: type[Client], capfd: pytest.CaptureFixture[str]
) -> None:
    async with started(kind, break_at=5) as client:
        results = await asyncio.gather(
            *(tokens_of(client, make_request(f"r{i}")) for i in range(6)), return_exceptions=True
        )
        assert all(isinstance(result, EngineDeadError) and "breaks here" in str(result) for result in results)
        assert not (await client.health()).ready
        with pytest.raises(EngineDeadError):
            await tokens_of(client, make_request("late"))


async def test_a_killed_engine_process_ends_every_request() -> None:
    async with started(ProcessClient, step_delay_s=0.02) as client:
        pending = [asyncio.create_task(tokens_of(client, make_request(f"r{i}", max_tokens=50))) for i in range(6)]
        await asyncio.sleep(0.2)
        assert (await client.health()).ready
        os.kill(client.pid, signal.SIGKILL)
        results = await asyncio.wait_for(asyncio.gather(*pending, return_exceptions=True), timeout=5)
        assert all(isinstance(result, EngineDeadError) for result in results)
        assert not (await client.health()).ready


@BOTH
async def test_a_start_that_is_cancelled_leaves_no_engine_behind(kind: type[Client]) -> None:
    client = kind()
    starting = asyncio.create_task(client.start(scripted_spec(start_delay_s=0.3)))
    await asyncio.sleep(0.1)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    for _ in range(100):
        engines = [thread for thread in threading.enumerate() if thread.name == "infer-engine"]
        if not engines and not multiprocessing.active_children():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the engine still runs")


async def test_a_progress_report_that_raises_ends_the_start_and_not_in_silence() -> None:
    def report(what: str, done: int, total: int) -> None:
        raise ValueError("the bar is broken")

    with pytest.raises(EngineDeadError, match="the bar is broken"):
        await asyncio.wait_for(ProcessClient().start(scripted_spec(), report), timeout=20)


async def test_a_folder_whose_name_is_too_long_for_a_socket_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(ConfigError, match="TMPDIR"):
        await ProcessClient().start(scripted_spec())
    assert list(deep.iterdir()) == []


@BOTH
async def test_a_reader_that_is_cancelled_aborts_its_request(kind: type[Client]) -> None:
    async with started(kind, step_delay_s=0.01) as client:
        reading = asyncio.create_task(tokens_of(client, make_request("r", max_tokens=50)))
        await asyncio.sleep(0.1)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until_idle(client)
        assert (await client.stats()).generated_tokens < 40


@BOTH
async def test_a_control_call_reaches_the_worker_and_its_error_comes_back(kind: type[Client]) -> None:
    async with started(kind) as client:
        assert await client.control("set_vocabulary", tokens=["a", "b"]) == 0
        assert await client.control("set_vocabulary", tokens=["c"]) == 2
        with pytest.raises(InferError, match="ValueError: a vocabulary has tokens"):
            await client.control("set_vocabulary", tokens=[])
        with pytest.raises(ValueError, match="set_vocabulary"):
            await client.control("reboot")
        assert await client.reset_cache() is True
        good = make_request("good")
        assert await tokens_of(client, good) == expected(good)


@BOTH
async def test_a_step_that_never_ends_is_told_and_then_ends_every_request(kind: type[Client]) -> None:
    async with started(kind, Patience(step_s=0.5), hang_at=3, hang_s=2.0) as client:
        pending = asyncio.create_task(tokens_of(client, make_request("r")))
        await asyncio.sleep(0.3)
        assert (await client.health()).ready
        reason = await until_unready(client)
        assert "stuck in a step" in reason
        assert not (await client.health()).dead
        with pytest.raises(EngineDeadError, match="stuck in a step"):
            await asyncio.wait_for(pending, 3)
        assert (await client.health()).dead


async def test_a_process_that_is_stopped_is_not_ready_until_it_goes_on() -> None:
    async with started(ProcessClient, Patience(silence_s=0.75, kill_s=20.0)) as client:
        os.kill(client.pid, signal.SIGSTOP)
        try:
            assert "no sign of life" in await until_unready(client)
            assert not (await client.health()).dead
        finally:
            os.kill(client.pid, signal.SIGCONT)
        for _ in range(100):
            if (await client.health()).ready:
                break
            await asyncio.sleep(0.02)
        good = make_request("good")
        assert await tokens_of(client, good) == expected(good)


async def test_a_pause_of_the_serving_process_is_not_taken_for_silence() -> None:
    async with started(ProcessClient, Patience(silence_s=0.75, kill_s=1.0)) as client:
        time.sleep(1.0)
        assert (await client.health()).ready
        await asyncio.sleep(0.6)
        assert (await client.health()).ready


@BOTH
async def test_closing_fails_pending_requests_at_once(kind: type[Client]) -> None:
    async with started(kind, hang_at=2, hang_s=0.8) as client:
        pending = [asyncio.create_task(tokens_of(client, make_request(f"r{i}"))) for i in range(6)]
        asking = asyncio.create_task(client.stats())
        await asyncio.sleep(0.3)
        closing = asyncio.create_task(client.close())
        results = await asyncio.wait_for(asyncio.gather(*pending, return_exceptions=True), 0.3)
        assert all(isinstance(result, EngineDeadError) and "closed" in str(result) for result in results)
        await asyncio.gather(asking, return_exceptions=True)
        assert not closing.done()
        await closing


@BOTH
async def test_a_stream_that_is_closed_before_its_first_iteration_never_reaches_the_engine(kind: type[Client]) -> None:
    async with started(kind) as client:
        stream = client.generate(make_request("r"))
        await stream.aclose()
        reading = asyncio.create_task(tokens_of(client, make_request("s")))
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        await until_idle(client)
        assert (await client.stats()).prompt_tokens == 0


@BOTH
async def test_200_clients_that_leave_at_any_stage_leave_nothing_behind(kind: type[Client]) -> None:
    """B52: queued, in prefill, in decode, preempted, and before the request has even been handed in."""
    chance = random.Random(52)

    async def leave(number: int) -> None:
        request = make_request(f"leaver{number}", length=chance.randint(1, 50), max_tokens=60)
        reading = asyncio.create_task(tokens_of(client, request))
        await asyncio.sleep(chance.choice([0.0, 0.0, 0.01, 0.1, 0.3]) * chance.random())
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

    async with started(kind, step_delay_s=0.001) as client:
        # Four rows of 64 tokens do not fit into the 59 blocks of 4: some of these get preempted.
        survivors = [make_request(f"survivor{i}", length=20 + i, max_tokens=63 - 20 - i) for i in range(8)]
        results, _ = await asyncio.gather(
            asyncio.gather(*(tokens_of(client, request) for request in survivors)),
            asyncio.gather(*(leave(number) for number in range(200))),
        )
        await until_idle(client)
        assert results == [expected(request) for request in survivors]
        if kind is InlineClient:
            assert client._engine_loop._engine.scheduler.is_idle_clean
            client._engine_loop._engine.scheduler.check()
        assert client._router._inboxes == {}
        assert client._router._questions == {}


async def test_a_request_that_comes_after_a_kill_and_before_anybody_knows_ends_too() -> None:
    async with started(ProcessClient) as client:
        os.kill(client.pid, signal.SIGKILL)
        await asyncio.to_thread(client._process.join)
        await asyncio.sleep(0.05)  # its end of the sockets is closed by now, and its death not yet declared
        with pytest.raises(EngineDeadError, match="exit code -9"):
            await asyncio.wait_for(tokens_of(client, make_request("r")), 3)
