"""Both clients over the same scripted engine: in this process, and in one of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import tempfile
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from infer.engine.inline_client import InlineClient
from infer.engine.process_client import ProcessClient
from infer.engine.start import EngineSpec
from infer.plugins.pluginset import PinnedPlugin, PluginSet
from infer_api.errors import ConfigError, EngineDeadError, RequestError
from infer_api.executors import WorkerSpec
from infer_api.requests import EngineRequest, SamplingParams
from infer_testkit.executor import next_token

Client = InlineClient | ProcessClient
BOTH = pytest.mark.parametrize("kind", [InlineClient, ProcessClient])


def make_spec(**config: Any) -> EngineSpec:
    scripted = PinnedPlugin(
        "executors", "scripted", "infer-testkit", "0", "infer_testkit", "infer_testkit.executor:scripted_executor"
    )
    worker = WorkerSpec("unused:Worker", config, PluginSet((scripted,)).to_dict())
    return EngineSpec("scripted", worker, max_num_seqs=4, max_num_batched_tokens=16, in_flight=2)


@asynccontextmanager
async def started(kind: type[Client], **config: Any) -> AsyncIterator[Any]:
    client = kind()
    await client.start(make_spec(**config))
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
        with pytest.raises(RequestError, match="at most 64 fit") as caught:
            await tokens_of(client, make_request("long", length=64))
        assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")
        good = make_request("good")
        assert await tokens_of(client, good) == expected(good)


@BOTH
async def test_a_start_that_fails_raises_the_error_of_the_engine(kind: type[Client]) -> None:
    with pytest.raises(ConfigError, match="no room"):
        await kind().start(make_spec(refuse="no room"))


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
    starting = asyncio.create_task(client.start(make_spec(start_delay_s=0.3)))
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
        await asyncio.wait_for(ProcessClient().start(make_spec(), report), timeout=20)


async def test_a_folder_whose_name_is_too_long_for_a_socket_is_an_error_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 120)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with pytest.raises(ConfigError, match="TMPDIR"):
        await ProcessClient().start(make_spec())
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
