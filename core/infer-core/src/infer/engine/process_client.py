"""The engine in another process, reached over ZMQ."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from multiprocessing.process import BaseProcess

import msgspec
import zmq
import zmq.asyncio

import infer_api.errors
from infer.engine.loop import Abort, Add, AskStats, Command, Refused, Stop
from infer.engine.process import Failed, Loading, Outputs, Ready, Result, StatsAnswer, engine_main
from infer.engine.router import OutputRouter
from infer.engine.start import EngineFacts, EngineSpec, Progress
from infer_api.errors import EngineDeadError, InferError
from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats

__all__ = ["ProcessClient"]

_STOP_LIMIT_S = 10.0


class ProcessClient:
    """EngineClient whose engine is a spawned process; it dies with this one."""

    def __init__(self) -> None:
        self._router = OutputRouter()
        self._context = zmq.asyncio.Context()
        self._commands: zmq.asyncio.Socket | None = None
        self._process: BaseProcess | None = None
        self._reader: asyncio.Task[None] | None = None
        self._folder = ""
        self._encoder = msgspec.msgpack.Encoder()
        self._progress: Progress | None = None
        self._is_closing = False

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts:
        """Spawn the process and wait until the model is loaded. Raises what loading raised there."""
        self._folder = tempfile.mkdtemp(prefix="infer-")
        commands_at, results_at = f"ipc://{self._folder}/commands", f"ipc://{self._folder}/results"
        self._commands = self._bind(zmq.PUSH, commands_at)
        results = self._bind(zmq.PULL, results_at)
        self._progress = progress
        # spawn: a forked child would inherit threads and, later, device contexts that do not survive it.
        self._process = multiprocessing.get_context("spawn").Process(
            target=engine_main, args=(spec, commands_at, results_at), name="infer-engine", daemon=True
        )
        self._process.start()
        loop = asyncio.get_running_loop()
        loop.add_reader(self._process.sentinel, self._on_exit)
        ready: asyncio.Future[EngineFacts] = loop.create_future()
        self._ready = ready
        self._reader = asyncio.create_task(self._read(results, ready))
        try:
            return await ready
        except BaseException:
            await self.close()
            raise

    @property
    def pid(self) -> int:
        """Process id of the engine."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        inbox = self._router.open(request.request_id)
        await self._send(Add(request))
        finished = False
        try:
            while not finished:
                for output in await inbox.take():
                    finished = output.finish_reason is not None
                    yield output
        finally:
            self._router.close(request.request_id)
            if not finished and self._router.dead is None:
                await self._send(Abort([request.request_id]))

    async def abort(self, request_ids: Sequence[str]) -> None:
        if self._router.dead is None:
            await self._send(Abort(list(request_ids)))

    async def stats(self) -> EngineStats:
        ticket, answer = self._router.ask()
        await self._send(AskStats(ticket))
        return await answer

    async def health(self) -> EngineHealth:
        if self._router.dead is not None:
            return EngineHealth(ready=False, reason=self._router.dead)
        return EngineHealth(ready=self._process is not None)

    async def close(self) -> None:
        self._is_closing = True
        process = self._process
        if process is not None:
            if process.is_alive() and self._router.dead is None:
                await self._send(Stop())
            await asyncio.to_thread(process.join, _STOP_LIMIT_S)
            if process.is_alive():
                process.kill()
                await asyncio.to_thread(process.join)
        self._router.die("the engine was closed")
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _bind(self, kind: int, address: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM if kind == zmq.PUSH else zmq.RCVHWM, 0)
        socket.bind(address)
        return socket

    async def _send(self, command: Command) -> None:
        if self._commands is None:
            raise EngineDeadError("the engine has not been started")
        await self._commands.send(self._encoder.encode(command))

    def _on_exit(self) -> None:
        assert self._process is not None
        asyncio.get_running_loop().remove_reader(self._process.sentinel)
        if self._is_closing:
            return
        # The process's last words may still be on their way to the reader.
        asyncio.get_running_loop().call_later(0.2, self._declare_dead)

    def _declare_dead(self) -> None:
        assert self._process is not None
        reason = f"the engine's process has ended with exit code {self._process.exitcode}"
        self._fail(EngineDeadError(reason))

    def _fail(self, error: Exception) -> None:
        if not self._ready.done():
            self._ready.set_exception(error)
        self._router.die(str(error))

    async def _read(self, results: zmq.asyncio.Socket, ready: asyncio.Future[EngineFacts]) -> None:
        decoder = msgspec.msgpack.Decoder(Result)
        while True:
            result = decoder.decode(await results.recv())
            if isinstance(result, Outputs):
                self._router.deliver(result.outputs)
            elif isinstance(result, StatsAnswer):
                self._router.answer(result.ticket, result.stats)
            elif isinstance(result, Refused):
                self._router.refuse(result.request_id, result.to_error())
            elif isinstance(result, Loading):
                if self._progress is not None:
                    self._progress(result.what, result.done, result.total)
            elif isinstance(result, Ready):
                ready.set_result(EngineFacts(result.max_model_len, result.capacity_tokens))
            else:
                self._fail(_error_of(result))


def _error_of(failed: Failed) -> Exception:
    """The error as it was raised over there, when it is one of ours; else EngineDeadError."""
    kind = getattr(infer_api.errors, failed.kind, None)
    if (
        isinstance(kind, type)
        and issubclass(kind, InferError)
        and failed.kind in ("ConfigError", "ModelError", "PluginError")
    ):
        error: Exception = kind(failed.message)
        return error
    return EngineDeadError(f"the engine has stopped: {failed.kind}: {failed.message}")
