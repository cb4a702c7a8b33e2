"""The engine in another process, reached over ZMQ."""

from __future__ import annotations

import asyncio
import multiprocessing
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from multiprocessing.process import BaseProcess
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from infer.engine.loop import Abort, Answer, AskStats, Command, Control, Refused, ResetCache, Stop, control_values
from infer.engine.process import Beat, Failed, Loading, Outputs, Ready, Result, engine_main
from infer.engine.router import OnDeath, OutputRouter
from infer.engine.start import EngineFacts, EngineSpec, Progress
from infer.engine.vitals import Patience, Vitals
from infer_api.errors import ConfigError, EngineDeadError
from infer_api.requests import EngineHealth, EngineOutput, EngineRequest, EngineStats

__all__ = ["ProcessClient"]

_STOP_LIMIT_S = 10.0
_TICK_S = 0.25
_LOADING_LENIENCY = 10.0
"""Loading may be silent for longer: a mapped file on a slow disk holds up the whole interpreter."""


class ProcessClient:
    """EngineClient whose engine is a spawned process; it dies with this one."""

    def __init__(self, patience: Patience | None = None, on_death: OnDeath = lambda reason: reason) -> None:
        self._router = OutputRouter(on_death)
        self._vitals = Vitals(patience or Patience())
        self._context = zmq.asyncio.Context()
        self._commands: zmq.asyncio.Socket | None = None
        self._process: BaseProcess | None = None
        self._reader: asyncio.Task[None] | None = None
        self._watcher: asyncio.Task[None] | None = None
        self._folder = ""
        self._encoder = msgspec.msgpack.Encoder()
        self._progress: Progress | None = None
        self._has_started = False
        self._is_closing = False
        self._ready: asyncio.Future[EngineFacts]

    async def start(self, spec: EngineSpec, progress: Progress | None = None) -> EngineFacts:
        """Spawn the process and wait until the model is loaded. Raises what loading raised there."""
        self._progress = progress
        ready = self._ready = asyncio.get_running_loop().create_future()
        try:
            self._folder = tempfile.mkdtemp(prefix="infer-")
            commands_at, results_at = f"ipc://{self._folder}/commands", f"ipc://{self._folder}/results"
            self._commands = self._bind(zmq.PUSH, commands_at)
            self._reader = asyncio.create_task(self._read(self._bind(zmq.PULL, results_at)))
            self._reader.add_done_callback(self._on_reader_end)
            self._spawn(spec, commands_at, results_at)
            facts = await ready
        except BaseException:
            await self.close()
            raise
        self._has_started = True
        return facts

    @property
    def pid(self) -> int:
        """Process id of the engine."""
        assert self._process is not None
        assert self._process.pid is not None
        return self._process.pid

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        return self._router.stream(request, self._send)

    async def abort(self, request_ids: Sequence[str]) -> None:
        if self._router.dead is None:
            await self._send(Abort(list(request_ids)))

    async def stats(self) -> EngineStats:
        return msgspec.convert(await self._router.ask(AskStats, self._send), EngineStats)

    async def reset_cache(self) -> bool:
        return bool(await self._router.ask(ResetCache, self._send))

    async def control(self, name: str, **args: Any) -> Any:
        values = control_values(name, args)
        return await self._router.ask(lambda ticket: Control(ticket, name, values), self._send)

    async def health(self) -> EngineHealth:
        if self._router.dead is not None:
            return EngineHealth(ready=False, reason=self._router.dead, dead=True)
        complaint = self._vitals.complaint()
        return EngineHealth(ready=self._has_started and not complaint, reason=complaint)

    async def close(self) -> None:
        self._is_closing = True
        listens = self._has_started and self._router.dead is None
        self._router.die("the engine was closed")
        if self._process is not None:
            await self._stop(self._process, listens)
            asyncio.get_running_loop().remove_reader(self._process.sentinel)
        tasks = [task for task in (self._reader, self._watcher) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._context.destroy(linger=0)
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _stop(self, process: BaseProcess, listens: bool) -> None:
        """Ask the process to end; end it where it does not listen, as while it loads or when it is lost."""
        if listens:
            await self._send(Stop())
            await asyncio.to_thread(process.join, _STOP_LIMIT_S)
        if process.is_alive():
            process.kill()
            # Bounded: a process that hangs in a driver does not even heed this.
            await asyncio.to_thread(process.join, _STOP_LIMIT_S)

    def _bind(self, kind: int, address: str) -> zmq.asyncio.Socket:
        socket = self._context.socket(kind)
        socket.setsockopt(zmq.SNDHWM if kind == zmq.PUSH else zmq.RCVHWM, 0)
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            raise ConfigError(
                f"the engine's process cannot be reached over {address}: {error}; point TMPDIR to a folder with a "
                "short name, or use --engine-process inline"
            ) from error
        return socket

    def _spawn(self, spec: EngineSpec, commands_at: str, results_at: str) -> None:
        # spawn: a forked child would inherit threads and, later, device contexts that do not survive it.
        process = multiprocessing.get_context("spawn").Process(
            target=engine_main, args=(spec, commands_at, results_at), name="infer-engine", daemon=True
        )
        process.start()
        self._process = process
        asyncio.get_running_loop().add_reader(process.sentinel, self._on_exit)
        self._watcher = asyncio.create_task(self._watch(process))

    async def _send(self, command: Command) -> None:
        if self._commands is None:
            raise EngineDeadError("the engine has not been started")
        # Not awaited: where the process is gone, or not there yet, that would wait for somebody who takes it.
        self._commands.send(self._encoder.encode(command))

    async def _watch(self, process: BaseProcess) -> None:
        """Count the silence, and end a process that keeps it for too long or never ends a step."""
        while self._router.dead is None:
            await asyncio.sleep(_TICK_S)
            self._vitals.silence_s += _TICK_S
            verdict = self._vitals.verdict(1.0 if self._has_started else _LOADING_LENIENCY)
            if verdict:
                process.kill()
                self._fail(EngineDeadError(f"{verdict}, and its process was killed"))

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

    def _on_reader_end(self, reader: asyncio.Task[None]) -> None:
        """What ended it (a progress report that raised, say) is told: nothing would ever arrive again."""
        error = None if reader.cancelled() else reader.exception()
        if error is not None:
            self._fail(EngineDeadError(f"results of the engine cannot be read: {type(error).__name__}: {error}"))

    async def _read(self, results: zmq.asyncio.Socket) -> None:
        decoder = msgspec.msgpack.Decoder(Result)
        while True:
            result = decoder.decode(await results.recv())
            self._vitals.silence_s = 0.0
            if isinstance(result, Outputs):
                self._router.deliver(result.outputs)
            elif isinstance(result, Beat):
                self._vitals.step_s = result.step_s
            elif isinstance(result, Answer):
                self._router.answer(result)
            elif isinstance(result, Refused):
                self._router.refuse(result.request_id, result.to_error())
            elif isinstance(result, Loading):
                if self._progress is not None:
                    self._progress(result.what, result.done, result.total)
            elif isinstance(result, Ready):
                self._ready.set_result(EngineFacts(result.max_model_len, result.capacity_tokens))
            else:
                assert isinstance(result, Failed)
                self._fail(result.failure.to_error(EngineDeadError, "the engine has stopped"))
