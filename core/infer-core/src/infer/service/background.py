"""An event loop on a thread of its own, for callers that have none or whose own is busy (notebooks)."""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterable, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

from infer_api.errors import EngineDeadError

__all__ = ["BackgroundLoop"]

T = TypeVar("T")
_END = object()
CLOSED = "this LLM has been closed; make a new one"


class BackgroundLoop:
    """Runs coroutines from any thread. Stops when closed, collected, or at the end of the interpreter."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="infer-service", daemon=True)
        self._thread.start()
        self._pumps: weakref.WeakSet[asyncio.Task[None]] = weakref.WeakSet()
        self._stop = weakref.finalize(self, _stop, self._loop, self._thread, self._pumps)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop's own thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end and return the result. Interrupting the caller (Ctrl-C) cancels the work.

        Raises EngineDeadError when the loop has been closed.
        """
        try:
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except RuntimeError:
            work.close()
            raise EngineDeadError(CLOSED) from None
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that nobody waits for."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of `source`, as they come. Leaving the iterator early closes `source`.

        Raises EngineDeadError when the loop is closed before the source has ended.
        """
        items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        task = self.run(_start(source, items))
        self._pumps.add(task)
        try:
            while (item := items.get()) is not _END:
                yield item
            if task.cancelled():
                raise EngineDeadError(CLOSED)
            task.result()
        finally:
            if not task.done():
                self.run(_end(task))

    def close(self) -> None:
        self._stop()


async def _start(source: AsyncGenerator[T, None], items: queue.SimpleQueue[Any]) -> asyncio.Task[None]:
    task = asyncio.create_task(_pump(source, items))
    task.add_done_callback(lambda _: items.put(_END))  # after an error, too: the reader must not be left waiting
    return task


async def _pump(source: AsyncGenerator[T, None], items: queue.SimpleQueue[Any]) -> None:
    async with aclosing(source):
        async for item in source:
            items.put(item)


async def _end(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _halt(loop: asyncio.AbstractEventLoop, tasks: Iterable[asyncio.Task[None]]) -> None:
    await _end(*tasks)
    loop.stop()


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread, pumps: Iterable[asyncio.Task[None]]) -> None:
    asyncio.run_coroutine_threadsafe(_halt(loop, pumps), loop)
    if thread is not threading.current_thread():  # the last reference may be dropped by work of the loop itself
        thread.join()
        loop.close()
