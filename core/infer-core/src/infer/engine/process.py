"""The engine in a process of its own: its main function, and the messages it answers with.

Commands come in and results go out as msgpack over two ZMQ sockets. The main thread steps the engine;
an I/O thread fills its command queue, so that requests are taken in while a step runs.
"""

from __future__ import annotations

import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Sequence

import msgspec
import zmq

from infer.engine.loop import Command, EngineLoop, Refused, Stop
from infer.engine.start import EngineSpec, load_engine
from infer_api.errors import InferError
from infer_api.requests import EngineOutput, EngineStats

__all__ = ["Failed", "Loading", "Outputs", "Ready", "Result", "StatsAnswer", "engine_main"]

_log = logging.getLogger(__name__)


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """Progress of loading the weights, in bytes."""

    what: str
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine serves."""

    max_model_len: int
    capacity_tokens: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine could not start, or has stopped. `kind` is the name of the error's class."""

    kind: str
    message: str


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """Results of one step."""

    outputs: list[EngineOutput]


class StatsAnswer(msgspec.Struct, frozen=True, tag="stats"):
    """Answer to AskStats."""

    ticket: int
    stats: EngineStats


Result = Loading | Ready | Failed | Outputs | StatsAnswer | Refused


class _SocketSink:
    """Sends results from the engine's thread. `send` only hands the frame to ZMQ's own I/O thread."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._encoder = msgspec.msgpack.Encoder()

    def send(self, result: Result) -> None:
        self._socket.send(self._encoder.encode(result))

    def outputs(self, outputs: Sequence[EngineOutput]) -> None:
        self.send(Outputs(list(outputs)))

    def refused(self, refused: Refused) -> None:
        self.send(refused)

    def stats(self, ticket: int, stats: EngineStats) -> None:
        self.send(StatsAnswer(ticket, stats))


def engine_main(spec: EngineSpec, commands_at: str, results_at: str) -> None:
    """Entry of the engine's process. Ends on Stop, or when the engine breaks (exit status 1)."""
    # Ctrl-C goes to the whole foreground group; the serving process decides when the engine ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="infer-parent-watch", daemon=True).start()
    context = zmq.Context(io_threads=1)
    results = context.socket(zmq.PUSH)
    results.setsockopt(zmq.SNDHWM, 0)
    results.connect(results_at)
    sink = _SocketSink(results)
    try:
        engine, facts, executor = load_engine(spec, lambda what, done, total: sink.send(Loading(what, done, total)))
        loop = EngineLoop(engine, sink)
        reader = threading.Thread(target=_read, args=(context, commands_at, loop), name="infer-commands", daemon=True)
        reader.start()
        sink.send(Ready(facts.max_model_len, facts.capacity_tokens))
        loop.run()
        executor.shutdown()
    except BaseException as error:
        if not isinstance(error, InferError):
            _log.exception("the engine has stopped")
        sink.send(Failed(type(error).__name__, str(error)))
        raise SystemExit(1) from error
    finally:
        results.close(linger=2000)
        # The reader still blocks in its own socket; the process ends with it, so the context is not terminated.


def _read(context: zmq.Context[zmq.Socket[bytes]], commands_at: str, loop: EngineLoop) -> None:
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(commands_at)
    decoder = msgspec.msgpack.Decoder(Command)
    while True:
        command = decoder.decode(socket.recv())
        loop.commands.put(command)
        if isinstance(command, Stop):
            socket.close(linger=0)
            return


def _end_with_parent() -> None:
    """Leave at once when the serving process is gone, however it went: nobody could use what we hold."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)
