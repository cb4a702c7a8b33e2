from __future__ import annotations

import asyncio
import gc

import pytest

from infer.service.merge import StreamMerger


class Source:
    """Yields `items`; an exception among them is raised, None means: wait for ever."""

    def __init__(self, *items) -> None:
        self.items, self.is_closed = items, False

    async def stream(self):
        try:
            for item in self.items:
                await asyncio.sleep(0)
                if item is None:
                    await asyncio.Event().wait()
                if isinstance(item, Exception):
                    raise item
                yield item
        finally:
            self.is_closed = True


async def drain(merger: StreamMerger) -> list:
    return [item async for item in _items(merger)]


async def _items(merger: StreamMerger):
    while (item := await merger.next()) is not None:
        yield item


async def test_items_of_all_sources_come_interleaved_and_in_order_per_source() -> None:
    items = await drain(StreamMerger([Source("a1", "a2", "a3").stream(), Source("b1", "b2").stream()]))
    assert sorted(items) == [(0, "a1"), (0, "a2"), (0, "a3"), (1, "b1"), (1, "b2")]
    assert [name for number, name in items if number == 0] == ["a1", "a2", "a3"]
    assert [number for number, _ in items][:2] == [0, 1], "the second source is not kept waiting"


@pytest.mark.parametrize("count", [0, 1])
async def test_none_and_one_source_work_too(count) -> None:
    assert await drain(StreamMerger([Source("x", "y").stream()] * count)) == [(0, "x"), (0, "y")][: 2 * count]


async def test_a_dropped_source_is_closed_and_says_nothing_more() -> None:
    endless, other = Source("a1", "a2", None), Source("b1")
    merger = StreamMerger([endless.stream(), other.stream()])
    assert await merger.next() == (0, "a1")
    await merger.drop(0)
    assert endless.is_closed
    assert await drain(merger) == [(1, "b1")]


@pytest.mark.parametrize("num_others", [0, 2])
async def test_an_error_reaches_the_reader_and_close_closes_the_rest(num_others) -> None:
    others = [Source(None) for _ in range(num_others)]
    merger = StreamMerger([Source(ValueError("x")).stream(), *(other.stream() for other in others)])
    with pytest.raises(ValueError, match="x"):
        await drain(merger)
    await merger.close()
    assert all(other.is_closed for other in others)
    assert await merger.next() is None


async def test_sources_that_fail_together_leave_no_error_unread() -> None:
    reports: list[dict] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reports.append(context))
    merger = StreamMerger([Source(ValueError(name)).stream() for name in "xyz"])
    with pytest.raises(ValueError, match="x"):
        await drain(merger)
    await asyncio.sleep(0.01)  # until the others have failed, too
    await merger.close()
    del merger
    gc.collect()
    assert reports == []
