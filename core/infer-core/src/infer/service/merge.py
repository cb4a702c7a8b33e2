"""Several asynchronous streams read as one, in the order in which their items come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Generic, TypeVar

__all__ = ["StreamMerger"]

T = TypeVar("T")


class StreamMerger(Generic[T]):
    """Reads `sources` side by side. `next` hands out items, `drop` closes one source early, `close` all of them.

    A lone source is read directly; several have a task each, since a slow one must not hold up the others. The
    error of one source is raised by `next`; the caller then closes the rest.
    """

    def __init__(self, sources: Sequence[AsyncIterator[T]]) -> None:
        self._sources = dict(enumerate(sources))
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._queue: asyncio.Queue[tuple[int, T] | asyncio.Task[None]] = asyncio.Queue()
        self._is_lone = len(sources) == 1

    async def next(self) -> tuple[int, T] | None:
        """(number of the source, its item), or None when every source has ended."""
        if self._is_lone:
            return await self._next_of_lone()
        if not self._tasks:
            self._start()
        while self._sources:
            entry = await self._queue.get()
            if isinstance(entry, asyncio.Task):
                self._forget(entry)
            elif entry[0] in self._sources:
                return entry
        return None

    async def drop(self, number: int) -> None:
        """Close one source; its items that are already queued are dropped. Unknown numbers are ignored."""
        source = self._sources.pop(number, None)
        if source is None:
            return
        task = self._tasks.get(number)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # several sources may fail at once; the first error was raised, the others are known
        if isinstance(source, AsyncGenerator):
            await source.aclose()

    async def close(self) -> None:
        for number in list(self._sources):
            await self.drop(number)

    async def _next_of_lone(self) -> tuple[int, T] | None:
        source = self._sources.get(0)
        if source is None:
            return None
        try:
            return 0, await anext(source)
        except StopAsyncIteration:
            del self._sources[0]
            return None

    def _start(self) -> None:
        for number, source in self._sources.items():
            task = asyncio.ensure_future(self._pump(number, source))
            self._tasks[number] = task
            task.add_done_callback(self._queue.put_nowait)

    async def _pump(self, number: int, source: AsyncIterator[T]) -> None:
        async for item in source:
            self._queue.put_nowait((number, item))

    def _forget(self, task: asyncio.Task[None]) -> None:
        """A source has ended by itself, with an error, or because it was dropped."""
        number = next(number for number, other in self._tasks.items() if other is task)
        if task.cancelled():
            return
        error = task.exception()
        self._sources.pop(number, None)
        if error is not None:
            raise error
