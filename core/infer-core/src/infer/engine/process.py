"""The engine in a process of its own: its main function, and the messages it answers with.

Commands come in and results go out as msgpack over ZMQ sockets. The main thread steps the engine; an I/O thread fills
its command queue, so that requests are taken in while a step runs, and another one tells that the process is alive.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Sequence
from pathlib import Path

import msgspec
import zmq

from infer.engine.loop import Answer, Command, EngineLoop, Failure, Refused, Stop
from infer.engine.start import EngineSpec, load_engine
from infer.engine.vitals import WorkClock
from infer.observe.logs import set_up_logging
from infer_api.errors import InferError
from infer_api.requests import EngineOutput

__all__ = ["Beat", "Failed", "Loading", "Outputs", "Ready", "Result", "engine_main"]

_log = logging.getLogger(__name__)

_LINGER_MS = 2000
_BEAT_INTERVAL_S = 0.5


class Loading(msgspec.Struct, frozen=True, tag="loading"):
    """Progress of loading the weights, in bytes."""

    what: str
    done: int
    total: int


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The engine serves."""

    max_model_len: int
    capacity_tokens: int


class Beat(msgspec.Struct, frozen=True, tag="beat"):
    """A sign of life, sent twice a second, also while the model loads. `step_s`: how long the present step has run."""

    step_s: float


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The engine could not start, or has stopped."""

    failure: Failure


class Outputs(msgspec.Struct, frozen=True, tag="outputs"):
    """Results of one step."""

    outputs: list[EngineOutput]


Result = Loading | Ready | Beat | Failed | Outputs | Answer | Refused


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

    def answer(self, answer: Answer) -> None:
        self.send(answer)


class _Pulse:
    """The thread that sends beats, over a socket of its own: sockets of ZMQ belong to one thread."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], results_at: str) -> None:
        self.loop: EngineLoop | None = None
        self._stopped = threading.Event()
        threading.Thread(target=self._run, args=(context, results_at), name="infer-pulse", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self, context: zmq.Context[zmq.Socket[bytes]], results_at: str) -> None:
        clock, encoder = WorkClock(_BEAT_INTERVAL_S), msgspec.msgpack.Encoder()
        with context.socket(zmq.PUSH) as socket, contextlib.suppress(zmq.ContextTerminated):
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(results_at)
            while True:
                step_s = clock.tick(self.loop.work) if self.loop is not None else 0.0
                socket.send(encoder.encode(Beat(step_s)))
                if self._stopped.wait(_BEAT_INTERVAL_S):
                    return


def engine_main(spec: EngineSpec, commands_at: str, results_at: str) -> None:
    """Entry of the engine's process. Ends on Stop, or when the engine breaks (exit status 1)."""
    # Ctrl-C goes to the whole foreground group; the serving process decides when the engine ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    set_up_logging(spec.log_level, {entry["package"] for entry in spec.worker.plugins["entries"]}, spec.log_format)
    threading.Thread(
        target=_end_with_parent, args=(commands_at, results_at), name="infer-parent-watch", daemon=True
    ).start()
    context = zmq.Context(io_threads=1)
    results = context.socket(zmq.PUSH)
    results.setsockopt(zmq.SNDHWM, 0)
    results.connect(results_at)
    sink, pulse = _SocketSink(results), _Pulse(context, results_at)
    try:
        engine, facts, executor = load_engine(spec, lambda what, done, total: sink.send(Loading(what, done, total)))
        loop = pulse.loop = EngineLoop(engine, executor, sink)
        reader = threading.Thread(target=_read, args=(context, commands_at, loop), name="infer-commands", daemon=True)
        reader.start()
        sink.send(Ready(facts.max_model_len, facts.capacity_tokens))
        loop.run()
        executor.shutdown()
    except BaseException as error:
        if not isinstance(error, InferError):
            _log.exception("the engine has stopped")
        sink.send(Failed(Failure.of(error)))
        raise SystemExit(1) from error
    finally:
        pulse.stop()
        # Only the end of the context waits until what was sent is out; it also ends the reader.
        results.close(linger=_LINGER_MS)
        context.term()


def _read(context: zmq.Context[zmq.Socket[bytes]], commands_at: str, loop: EngineLoop) -> None:
    socket = context.socket(zmq.PULL)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.connect(commands_at)
    decoder = msgspec.msgpack.Decoder(Command)
    try:
        while True:
            loop.commands.put(decoder.decode(socket.recv()))
    except zmq.ContextTerminated:
        return
    except msgspec.DecodeError:
        _log.exception("a command cannot be read; the engine stops")
        loop.commands.put(Stop())
    finally:
        socket.close(linger=0)


def _end_with_parent(*addresses: str) -> None:
    """Leave at once when the serving process is gone, however it went, and take its sockets and their folder along."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        for path in (Path(address.removeprefix("ipc://")) for address in addresses):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
                path.parent.rmdir()  # works once the last socket is gone
        os._exit(1)
