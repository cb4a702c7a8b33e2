"""Runs an engine until told to stop: takes commands from a queue, hands outputs to a sink."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Protocol

import msgspec

from infer.engine.core import Engine
from infer_api.errors import RequestError
from infer_api.requests import EngineOutput, EngineRequest, EngineStats

__all__ = ["Abort", "Add", "AskStats", "Command", "EngineLoop", "Refused", "Sink", "Stop"]


class Add(msgspec.Struct, frozen=True, tag="add"):
    """Queue a request."""

    request: EngineRequest


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End requests."""

    request_ids: list[str]


class AskStats(msgspec.Struct, frozen=True, tag="stats"):
    """Answer with a snapshot, marked with `ticket`."""

    ticket: int


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End the loop; what still runs is dropped."""


Command = Add | Abort | AskStats | Stop


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """A request that `Engine.add` did not take, as plain data of a RequestError."""

    request_id: str
    message: str
    param: str | None
    code: str
    status: int

    def to_error(self) -> RequestError:
        return RequestError(self.message, param=self.param, code=self.code, status=self.status)


class Sink(Protocol):
    """Where the loop's results go; called from the loop's thread."""

    def outputs(self, outputs: Sequence[EngineOutput]) -> None: ...

    def refused(self, refused: Refused) -> None: ...

    def stats(self, ticket: int, stats: EngineStats) -> None: ...


class EngineLoop:
    """`run` blocks; `commands` may be filled from any thread."""

    def __init__(self, engine: Engine, sink: Sink) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._engine = engine
        self._sink = sink

    def run(self) -> None:
        """Step the engine while there is work, sleep on the command queue while there is none."""
        while self._obey():
            if self._engine.has_work:
                outputs = self._engine.step()
                if outputs:
                    self._sink.outputs(outputs)

    def _obey(self) -> bool:
        """Carry out the commands at hand; waits for one when the engine is idle. False after Stop."""
        while True:
            try:
                command = self.commands.get(block=not self._engine.has_work)
            except queue.Empty:
                return True
            if isinstance(command, Stop):
                return False
            self._carry_out(command)

    def _carry_out(self, command: Add | Abort | AskStats) -> None:
        if isinstance(command, Add):
            try:
                self._engine.add(command.request)
            except RequestError as error:
                request_id = command.request.request_id
                self._sink.refused(Refused(request_id, error.message, error.param, error.code, error.status))
        elif isinstance(command, Abort):
            outputs = self._engine.abort(command.request_ids)
            if outputs:
                self._sink.outputs(outputs)
        else:
            self._sink.stats(command.ticket, self._engine.stats())
