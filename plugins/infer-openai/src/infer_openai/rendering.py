"""Where prompts are rendered: a long one takes seconds, in which the event loop must go on with everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request

__all__ = ["LONG_BODY_BYTES", "rendered"]

T = TypeVar("T")

LONG_BODY_BYTES = 32 * 1024
"""From here on tokenizing takes longer than a step of a small model; below, a thread would cost more than it saves."""


async def rendered(request: Request, work: Callable[[], T]) -> T:
    """The result of `work`, which renders or decodes what `request` brought; on a thread when that is long."""
    if len(await request.body()) < LONG_BODY_BYTES:  # has been read already: the route got it parsed
        return work()
    return await asyncio.to_thread(work)
