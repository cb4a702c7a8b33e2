"""Hands engine outputs to the coroutines that wait for them. Lives on one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from infer.engine.loop import Abort, Add, Answer, Command
from infer_api.errors import EngineDeadError, InferError
from infer_api.requests import EngineOutput, EngineRequest

__all__ = ["Inbox", "OnDeath", "OutputRouter", "Send"]

Send = Callable[[Command], Awaitable[None]]
"""Hands a command to the engine, wherever it runs."""

OnDeath = Callable[[str], str]
"""Hears, once and on the event loop, why the engine is gone; returns what those who wait are told."""


class Inbox:
    """Outputs of one request that nobody has taken yet, or the error that ended it."""

    def __init__(self) -> None:
        self._outputs: list[EngineOutput] = []
        self._error: Exception | None = None
        self._arrived = asyncio.Event()

    @property
    def has_failed(self) -> bool:
        """Whether the engine knows no such request any more, or is gone itself."""
        return self._error is not None

    def put(self, output: EngineOutput) -> None:
        self._outputs.append(output)
        self._arrived.set()

    def fail(self, error: Exception) -> None:
        self._error = error
        self._arrived.set()

    async def take(self) -> list[EngineOutput]:
        """All outputs since the last call; waits for the first. Raises the error that ended the request."""
        await self._arrived.wait()
        self._arrived.clear()
        outputs, self._outputs = self._outputs, []
        if not outputs and self._error is not None:
            raise self._error
        if self._error is not None:
            self._arrived.set()
        return outputs


class OutputRouter:
    """Open requests by id, and questions by ticket."""

    def __init__(self, on_death: OnDeath = lambda reason: reason) -> None:
        self._inboxes: dict[str, Inbox] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._next_ticket = 0
        self._on_death = on_death
        self.dead: str | None = None

    async def stream(self, request: EngineRequest, send: Send) -> AsyncIterator[EngineOutput]:
        """Hand in a request and yield its outputs; leaving before the last one, in whatever way, aborts it.

        Raises the RequestError that refused it, or EngineDeadError once the engine has stopped.
        """
        self._check_alive()
        request_id, finished = request.request_id, False
        assert request_id not in self._inboxes, "internal request ids are unique"
        inbox = self._inboxes[request_id] = Inbox()
        try:
            await send(Add(request))
            while not finished:
                for output in await inbox.take():
                    finished = output.finish_reason is not None
                    yield output
        finally:
            del self._inboxes[request_id]
            if not finished and not inbox.has_failed:
                await send(Abort([request_id]))

    async def ask(self, question: Callable[[int], Command], send: Send) -> Any:
        """Send the `question` of a ticket and wait for its answer.

        Raises what the answer says has failed, or EngineDeadError once the engine has stopped.
        """
        self._check_alive()
        self._next_ticket += 1
        ticket = self._next_ticket
        answer = self._questions[ticket] = asyncio.get_running_loop().create_future()
        try:
            await send(question(ticket))
            return await answer
        finally:
            self._questions.pop(ticket, None)

    def deliver(self, outputs: Sequence[EngineOutput]) -> None:
        for output in outputs:
            inbox = self._inboxes.get(output.request_id)
            if inbox is not None:
                inbox.put(output)

    def refuse(self, request_id: str, error: Exception) -> None:
        inbox = self._inboxes.get(request_id)
        if inbox is not None:
            inbox.fail(error)

    def answer(self, answer: Answer) -> None:
        future = self._questions.get(answer.ticket)
        if future is None or future.done():
            return
        if answer.failure is None:
            future.set_result(answer.value)
        else:
            future.set_exception(answer.failure.to_error(InferError, "this failed in the engine, which goes on"))

    def die(self, reason: str) -> None:
        """The engine has stopped: everybody who waits is told, and nobody may start to wait."""
        if self.dead is not None:
            return
        self.dead = self._on_death(reason)
        for inbox in self._inboxes.values():
            inbox.fail(EngineDeadError(self.dead))
        for future in self._questions.values():
            if not future.done():
                future.set_exception(EngineDeadError(self.dead))

    def _check_alive(self) -> None:
        if self.dead is not None:
            raise EngineDeadError(self.dead)
