"""An event loop on a thread of its own, for callers that have none or whose own is busy (notebooks)."""

from __future__ import annotations

import asyncio
import queue
import threading
import weakref
from collections.abc import AsyncGenerator, Coroutine, Iterator
from contextlib import aclosing
from typing import Any, TypeVar

__all__ = ["BackgroundLoop"]

T = TypeVar("T")
_END = object()


class BackgroundLoop:
    """Runs coroutines from any thread. Stops when closed, collected, or at the end of the interpreter."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="infer-service", daemon=True)
        self._thread.start()
        self._stop = weakref.finalize(self, _stop, self._loop, self._thread)

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the loop's own thread, where waiting for the loop would never end."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end and return the result. Interrupting the caller (Ctrl-C) cancels the work."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Start work that nobody waits for."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def iterate(self, source: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of `source`, as they come. Leaving the iterator early closes `source`."""
        items: queue.SimpleQueue[Any] = queue.SimpleQueue()
        task = self.run(_spawn(_pump(source, items)))
        try:
            while (item := items.get()) is not _END:
                yield item
            self.run(_result(task))
        finally:
            self.run(_end(task))

    def close(self) -> None:
        self._stop()


async def _spawn(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    return asyncio.ensure_future(work)


async def _pump(source: AsyncGenerator[T, None], items: queue.SimpleQueue[Any]) -> None:
    try:
        async with aclosing(source):
            async for item in source:
                items.put(item)
    finally:
        items.put(_END)  # after an error, too: the reader must not be left waiting


async def _result(task: asyncio.Task[None]) -> None:
    await task


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _stop(loop: asyncio.AbstractEventLoop, thread: threading.Thread) -> None:
    loop.call_soon_threadsafe(loop.stop)
    if thread is not threading.current_thread():  # the last reference may be dropped by work of the loop itself
        thread.join()
        loop.close()
