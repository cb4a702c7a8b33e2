"""Runs an engine until told to stop: takes commands from a queue, hands outputs to a sink."""

from __future__ import annotations

import logging
import queue
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from infer.engine.core import Engine
from infer_api.errors import ConfigError, InferError, ModelError, PluginError, RequestError
from infer_api.executors import Executor
from infer_api.requests import EngineOutput, EngineRequest

__all__ = [
    "MENDABLE",
    "Abort",
    "Add",
    "Answer",
    "AskStats",
    "Command",
    "Control",
    "EngineLoop",
    "Failure",
    "Refused",
    "ResetCache",
    "Sink",
    "Stop",
    "control_values",
]

_log = logging.getLogger(__name__)

_CONTROLS: Mapping[str, tuple[str, ...]] = {"set_vocabulary": ("tokens",)}
"""Control calls to workers, and the names of their arguments in order."""

MENDABLE = (ConfigError, ModelError, PluginError)
"""Errors of which a user can mend the cause: they, and plugins' own kinds of them, are raised as such by clients."""


class Add(msgspec.Struct, frozen=True, tag="add"):
    """Queue a request."""

    request: EngineRequest


class Abort(msgspec.Struct, frozen=True, tag="abort"):
    """End requests."""

    request_ids: list[str]


class AskStats(msgspec.Struct, frozen=True, tag="stats"):
    """Answer with a snapshot, marked with `ticket`."""

    ticket: int


class ResetCache(msgspec.Struct, frozen=True, tag="reset"):
    """Forget cached prefixes; the answer says whether all are gone."""

    ticket: int


class Control(msgspec.Struct, frozen=True, tag="control"):
    """Call a method of the workers; the answer is what the first of them returned, as plain data."""

    ticket: int
    name: str
    values: list[Any]


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """End the loop; what still runs is dropped."""


Command = Add | Abort | AskStats | ResetCache | Control | Stop


class Failure(msgspec.Struct, frozen=True):
    """An exception as plain data. `kind` is the class in MENDABLE, else that of the error itself."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        kind = next((one for one in MENDABLE if isinstance(error, one)), type(error))
        return cls(kind.__name__, str(error))

    def to_error(self, otherwise: type[InferError], what: str) -> InferError:
        """As it was raised, when a user can mend it; else one of `otherwise`, which says what happened."""
        for kind in MENDABLE:
            if self.kind == kind.__name__:
                return kind(self.message)
        return otherwise(f"{what}: {self.kind}: {self.message}")


class Answer(msgspec.Struct, frozen=True, tag="answer"):
    """Answer to a command with a ticket."""

    ticket: int
    value: Any = None
    failure: Failure | None = None


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """A request that the engine did not take, as plain data of a RequestError."""

    request_id: str
    message: str
    param: str | None
    code: str
    status: int
    retry_after_s: float | None = None

    @classmethod
    def because(cls, request_id: str, error: RequestError) -> Refused:
        return cls(request_id, error.message, error.param, error.code, error.status, error.retry_after_s)

    def to_error(self) -> RequestError:
        return RequestError(
            self.message, param=self.param, code=self.code, status=self.status, retry_after_s=self.retry_after_s
        )


class Sink(Protocol):
    """Where the loop's results go; called from the loop's thread."""

    def outputs(self, outputs: Sequence[EngineOutput]) -> None: ...

    def refused(self, refused: Refused) -> None: ...

    def answer(self, answer: Answer) -> None: ...


def control_values(name: str, args: Mapping[str, Any]) -> list[Any]:
    """Arguments of a control call in order. Raises ValueError for a name or arguments that no worker knows."""
    if name not in _CONTROLS:
        raise ValueError(f"workers know no control call {name!r}; there is: {', '.join(_CONTROLS)}")
    if set(args) != set(_CONTROLS[name]):
        raise ValueError(f"{name} takes {', '.join(_CONTROLS[name])}; found {', '.join(args) or 'nothing'}")
    return [args[each] for each in _CONTROLS[name]]


class EngineLoop:
    """`run` blocks; `commands` may be filled from any thread.

    `work` may be read from any thread: odd while a step or a command is under way, and another number for the next.
    """

    def __init__(self, engine: Engine, executor: Executor, sink: Sink) -> None:
        self.commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.work = 0
        self._engine = engine
        self._executor = executor
        self._sink = sink

    def run(self) -> None:
        """Step the engine while there is work, sleep on the command queue while there is none."""
        while self._obey():
            if self._engine.has_work:
                self.work += 1
                outputs = self._engine.step()
                self.work += 1
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
            self.work += 1
            self._carry_out(command)
            self.work += 1

    def _carry_out(self, command: Add | Abort | AskStats | ResetCache | Control) -> None:
        if isinstance(command, Add):
            self._add(command.request)
        elif isinstance(command, Abort):
            outputs = self._engine.abort(command.request_ids)
            if outputs:
                self._sink.outputs(outputs)
        else:
            self._answer(command)

    def _add(self, request: EngineRequest) -> None:
        try:
            self._engine.add(request)
        except RequestError as error:
            self._sink.refused(Refused.because(request.request_id, error))
        except Exception as error:  # noqa: BLE001 - one odd request must not end the others
            _log.exception("request %s cannot be taken in", request.request_id)
            self._engine.abort([request.request_id])  # what was taken in of it
            message = f"the engine could not take the request: {type(error).__name__}: {error}"
            self._sink.refused(Refused(request.request_id, message, None, "internal_error", 500))

    def _answer(self, command: AskStats | ResetCache | Control) -> None:
        try:
            if isinstance(command, AskStats):
                value: Any = self._engine.stats()
            elif isinstance(command, ResetCache):
                value = self._engine.reset_cache()
            else:
                value = self._executor.call(command.name, *command.values)[0]
            answer = Answer(command.ticket, value)
        except Exception as error:  # noqa: BLE001 - plugin code of any kind; whoever asked is told
            _log.exception("%s failed; the engine goes on", getattr(command, "name", type(command).__name__))
            answer = Answer(command.ticket, None, Failure.of(error))
        self._sink.answer(answer)
