"""The life of the server process: from the open port to the last reply."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from fastapi import FastAPI
from starlette.routing import Match

from infer_api.commands import CommandContext
from infer_api.services import EngineClient
from infer_server.app import make_app
from infer_server.banner import TRY_PATHS, ready_lines
from infer_server.connection import ConnectionLimits
from infer_server.gate import Gate
from infer_server.http_server import HttpServer
from infer_server.listen import url_of
from infer_server.starting import StartingApp

__all__ = ["serve"]

_WATCH_INTERVAL_S = 0.5
_STOPPED = "the engine has stopped"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass
class _Stop:
    """What signals ask for: the first one an end once running requests are done, the second one an end at once."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    at_once: asyncio.Event = field(default_factory=asyncio.Event)


async def serve(context: CommandContext, listener: socket.socket, tls: ssl.SSLContext | None = None) -> int:
    """Serve on `listener` until a signal (0) or the engine's death (1). Raises InferError when it cannot start."""
    settings = context.config.server
    starting, gate = StartingApp(), Gate(settings.max_requests)
    url = url_of(listener, "https" if tls else "http")  # asked now: a signal closes the socket, also while loading
    limits = ConnectionLimits(**{each.name: getattr(settings, each.name) for each in fields(ConnectionLimits)})
    server = HttpServer(starting, limits, tls)
    with _stop_on_signals(gate, starting) as stop:
        http = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            async with context.open_services() as services:
                app = _app(context, services, gate)
                starting.become(app)
                paths = frozenset(path for path in TRY_PATHS if _answers(app, path))
                for line in ready_lines(services, await services.engine.stats(), url, paths):
                    context.say(line)
                status = await _until_stopped(http, stop, services.engine, context)
                gate.close("shutting down" if status == 0 else "stopping: its engine has ended")
                await _drain(gate, stop, settings.shutdown_timeout_s)
                # Now, so that requests which are cut still find their engine.
                await _end(server, http, stop)
                return status
        except asyncio.CancelledError:
            if not stop.asked.is_set():
                raise
            return 0
        finally:
            await _end(server, http, stop)


def _app(context: CommandContext, services: Any, gate: Gate) -> FastAPI:
    settings = context.config.server
    return make_app(
        services,
        [router for _, router in context.routes(services)],
        allowed_origins=settings.allowed_origins,
        docs=settings.docs,
        gate=gate,
        body_timeout_s=settings.body_timeout_s,
    )


def _answers(app: FastAPI, path: str) -> bool:
    request = {"type": "http", "method": "POST", "path": path, "root_path": "", "headers": []}
    return any(route.matches(dict(request))[0] is Match.FULL for route in app.routes)


@contextlib.contextmanager
def _stop_on_signals(gate: Gate, starting: StartingApp) -> Iterator[_Stop]:
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()
    stop = _Stop()

    def asked() -> None:
        if stop.asked.is_set():
            stop.at_once.set()
        stop.asked.set()
        gate.close("shutting down")  # here, so that /ready says so from now on
        if not starting.is_ready and main is not None:
            main.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, asked)
    try:
        yield stop
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)


async def _until_stopped(http: asyncio.Task[None], stop: _Stop, engine: EngineClient, context: CommandContext) -> int:
    """Wait for a signal (0), or for the end of the engine (1), which is said."""
    death = asyncio.create_task(_death_of(engine))
    asked = asyncio.create_task(stop.asked.wait())
    try:
        await asyncio.wait({http, death, asked}, return_when=asyncio.FIRST_COMPLETED)
        if http.done():
            await http
        elif death.done():
            reason = await death
            context.say(reason if reason.startswith(_STOPPED) else f"{_STOPPED}: {reason}")
            return 1
        return 0
    finally:
        death.cancel()
        asked.cancel()


async def _death_of(engine: EngineClient) -> str:
    """Wait until the engine is dead for good, and say why. One that is not ready may be again."""
    while True:
        await asyncio.sleep(_WATCH_INTERVAL_S)
        health = await engine.health()
        if health.dead:
            return health.reason


async def _drain(gate: Gate, stop: _Stop, timeout_s: float) -> None:
    """Wait for running requests, `timeout_s` at most. The port stays open: who asks /ready is told of the end."""
    waits = [asyncio.create_task(gate.wait_until_idle()), asyncio.create_task(stop.at_once.wait())]
    await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    for each in waits:
        each.cancel()


async def _end(server: HttpServer, http: asyncio.Task[None], stop: _Stop) -> None:
    server.force_exit = stop.at_once.is_set()
    server.should_exit = True
    await http
