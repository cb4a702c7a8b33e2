"""Work for a client that may leave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

__all__ = ["ClientGone", "close", "until_gone"]

_T = TypeVar("_T")


class ClientGone(Exception):
    """The client left before its answer was complete."""


async def until_gone(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`. Cancels it and raises ClientGone when the client leaves first.

    Call it once the body is read: the next message that `receive` gives is then the client's departure.
    """
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_departure(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise ClientGone
        return task.result()
    finally:
        # Waited for, so that whatever the work held is given back before the handler ends.
        for each in (task, gone):
            each.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def close(events: AsyncIterator[Any]) -> None:
    """End an iterator of events early: the pipeline aborts what still runs. Harmless after its end."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()


async def _departure(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
