from __future__ import annotations

import asyncio
import gc
import threading

import pytest

from infer.service.background import BackgroundLoop
from infer_api.errors import EngineDeadError


@pytest.fixture
def background():
    loop = BackgroundLoop()
    yield loop
    loop.close()


async def where() -> str:
    return threading.current_thread().name


async def count_to(limit: int, closed: list[str], error: Exception | None = None):
    try:
        for number in range(limit):
            await asyncio.sleep(0)
            yield number
        if error is not None:
            raise error
        await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0)
        closed.append("closed")


def test_work_runs_on_another_thread(background) -> None:
    assert background.run(where()) == "infer-service" != threading.current_thread().name


async def test_it_works_where_a_loop_is_already_running(background) -> None:
    assert background.run(where()) == "infer-service"


def test_errors_come_back(background) -> None:
    async def fail() -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        background.run(fail())


def test_items_come_as_an_iterator(background) -> None:
    closed: list[str] = []
    assert list(background.iterate(count_to(3, closed))) == [0, 1, 2]
    assert closed == ["closed"]


def test_an_error_of_the_source_comes_after_its_items(background) -> None:
    closed: list[str] = []
    iterator = background.iterate(count_to(2, closed, ValueError("late")))
    assert [next(iterator), next(iterator)] == [0, 1]
    with pytest.raises(ValueError, match="late"):
        next(iterator)
    assert closed == ["closed"]


def test_leaving_early_closes_the_source(background) -> None:
    closed: list[str] = []
    iterator = background.iterate(count_to(10**9, closed))
    assert next(iterator) == 0
    iterator.close()
    assert closed == ["closed"]


def test_closing_ends_the_thread_and_may_be_repeated() -> None:
    loop = BackgroundLoop()
    loop.run(where())
    thread = loop._thread
    loop.close()
    loop.close()
    assert not thread.is_alive()


def test_a_loop_whose_last_user_is_its_own_work_stops_too() -> None:
    users = [BackgroundLoop()]
    thread, loop = users[0]._thread, users[0]._loop
    loop.call_soon_threadsafe(users.clear)
    thread.join(5)
    assert not thread.is_alive()
    loop.close()


@pytest.mark.filterwarnings("error")
def test_a_closed_loop_ends_an_iteration_and_refuses_work() -> None:
    async def endless():
        yield 0
        await asyncio.Event().wait()

    background = BackgroundLoop()
    items, unread = background.iterate(endless()), background.iterate(endless())
    assert next(items) == 0
    background.close()
    for late in (lambda: next(items), lambda: next(unread), lambda: background.run(where())):
        with pytest.raises(EngineDeadError, match="has been closed"):
            late()
    gc.collect()
