"""Clients that are slow, greedy or odd, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from infer_server.connection import Connection, ConnectionLimits
from infer_server.http_server import HttpServer
from infer_server.listen import open_socket

GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class App:
    """Answers "ok"; under /endless it writes until its client leaves, which it notes; /unread leaves the body alone."""

    has_left: asyncio.Event

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/endless":
            await self._endless(receive, send)
            return
        if scope["path"] == "/slow":
            await asyncio.sleep(0.3)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
        await send({"type": "http.response.body", "body": b"ok"})

    async def _endless(self, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})

        async def write() -> None:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 2**20, "more_body": True})
                await asyncio.sleep(0)

        writing = asyncio.create_task(write())
        while (await receive())["type"] != "http.disconnect":
            pass
        self.has_left.set()
        writing.cancel()


Connect = Callable[[], Any]


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[tuple[Connect, App, HttpServer]]:
    """A server with some limits; `connect()` gives (reader, writer)."""
    app = App(asyncio.Event())
    server = HttpServer(app, ConnectionLimits(**limits))
    writers: list[asyncio.StreamWriter] = []
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        task = asyncio.create_task(server.serve(sockets=[listener]))

        async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            pair = await asyncio.open_connection("127.0.0.1", port)
            writers.append(pair[1])
            return pair

        try:
            yield connect, app, server
        finally:
            for writer in writers:
                writer.close()
            server.should_exit = True
            await asyncio.wait_for(task, 10)


async def reply_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of one reply."""
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
    return int(head[0].split()[1]), headers, await reader.readexactly(int(headers["content-length"]))


async def closed(reader: asyncio.StreamReader) -> None:
    """Returns when the other side has closed, having sent nothing more."""
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        assert await asyncio.wait_for(reader.read(1), 5) == b""


async def test_a_client_that_sends_its_headers_byte_by_byte_gets_408() -> None:
    async with served(header_timeout_s=0.3) as (connect, _, _):
        reader, writer = await connect()
        started = time.monotonic()

        async def drip() -> None:
            for byte in GET:
                writer.write(bytes([byte]))
                await asyncio.sleep(0.05)

        dripping = asyncio.create_task(drip())
        status, headers, body = await reply_of(reader)
        assert 0.25 < time.monotonic() - started < 1
        dripping.cancel()
        assert (status, headers["connection"]) == (408, "close")
        assert "0.3 s (server.header_timeout_s)" in json.loads(body)["error"]["message"]
        await closed(reader)


async def test_a_connection_that_sends_nothing_is_ended() -> None:
    async with served(header_timeout_s=0.1) as (connect, _, _):
        reader, _ = await connect()
        assert (await reply_of(reader))[0] == 408
        await closed(reader)


async def test_the_time_of_headers_begins_anew_with_each_request() -> None:
    async with served(header_timeout_s=0.3) as (connect, _, server):
        reader, writer = await connect()
        for _ in range(3):
            writer.write(GET)
            assert (await reply_of(reader))[0] == 200
            await asyncio.sleep(0.2)
        writer.write(b"GET / HT")
        assert (await reply_of(reader))[0] == 408


async def test_blank_lines_between_requests_do_not_keep_a_connection() -> None:
    async with served(header_timeout_s=0.2, idle_timeout_s=5) as (connect, _, server):
        reader, writer = await connect()
        writer.write(GET)
        await reply_of(reader)
        for _ in range(3):
            writer.write(b"\r\n")
            await asyncio.sleep(0.05)
        assert (await reply_of(reader))[0] == 408


async def test_an_idle_connection_is_closed_after_its_time() -> None:
    async with served(idle_timeout_s=0.1, header_timeout_s=9) as (connect, _, server):
        reader, writer = await connect()
        writer.write(GET)
        assert (await reply_of(reader))[0] == 200
        await closed(reader)


async def test_a_slow_answer_is_no_slow_client() -> None:
    async with served(header_timeout_s=0.1, idle_timeout_s=0.1, body_timeout_s=0.1, write_timeout_s=0.1) as (
        connect,
        _,
        _,
    ):
        reader, writer = await connect()
        writer.write(GET.replace(b"/ ", b"/slow ", 1))
        assert (await reply_of(reader))[0] == 200


async def test_a_client_that_never_reads_is_cut_off_and_the_app_sees_it_leave() -> None:
    async with served(write_timeout_s=0.3) as (connect, app, server):
        reader, writer = await connect()
        writer.transport.pause_reading()
        writer.write(GET.replace(b"/ ", b"/endless ", 1))
        started = time.monotonic()
        await asyncio.wait_for(app.has_left.wait(), 5)
        assert time.monotonic() - started > 0.25
        for _ in range(100):
            if not server.server_state.connections:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("the connection is still held")


async def test_the_rest_of_a_body_that_nobody_reads_has_its_time_too() -> None:
    async with served(body_timeout_s=0.2) as (connect, _, _):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n")
        assert (await reply_of(reader))[0] == 200
        for _ in range(6):
            writer.write(b"x")
            await asyncio.sleep(0.05)
        await closed(reader)


async def test_a_connection_whose_body_ended_after_its_answer_is_idle_from_then_on() -> None:
    async with served(idle_timeout_s=0.2) as (connect, _, _):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
        assert (await reply_of(reader))[0] == 200
        writer.write(b"{}")
        await closed(reader)


async def test_the_next_request_may_take_longer_than_an_idle_connection_may() -> None:
    async with served(idle_timeout_s=0.1) as (connect, _, _):
        reader, writer = await connect()
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n")
        assert (await reply_of(reader))[0] == 200
        writer.write(b"{}GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reply_of(reader))[0] == 200


async def test_connections_beyond_the_limit_are_closed_at_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Connection, "_said_full_s", float("-inf"))
    async with served(max_connections=2) as (connect, _, server):
        first = await connect()
        second = await connect()
        await asyncio.sleep(0.05)
        for _ in range(3):
            reader, _ = await connect()
            await closed(reader)
        first[1].write(GET)
        assert (await reply_of(first[0]))[0] == 200
        second[1].close()
        await asyncio.sleep(0.05)
        reader, writer = await connect()
        writer.write(GET)
        assert (await reply_of(reader))[0] == 200
    said = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1
    assert "2 are open, the most (server.max_connections)" in said[0].getMessage()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 3000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 600 + b"\r\n",
    ],
)
async def test_headers_over_the_limit_are_431(head: bytes) -> None:
    async with served(max_header_bytes=2000) as (connect, _, _):
        reader, writer = await connect()
        writer.write(head)
        status, _, body = await reply_of(reader)
        assert status == 431
        assert "2000 bytes (server.max_header_bytes)" in json.loads(body)["error"]["message"]
        await closed(reader)


async def test_headers_that_never_end_are_431_as_soon_as_they_are_too_large() -> None:
    async with served(max_header_bytes=20_000) as (connect, _, _):
        reader, writer = await connect()
        writer.write(b"GET / HTTP/1.1\r\nA: ")
        for _ in range(2):
            await asyncio.sleep(0.02)
            writer.write(b"a" * 15_000)
        assert (await reply_of(reader))[0] == 431


@pytest.mark.parametrize("data", [b"\x16\x03\x01\x02\x00\x01\x00", b"hello\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"])
async def test_what_is_no_http_is_400_and_says_nothing_in_the_log(
    data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as (connect, _, _):
        reader, writer = await connect()
        writer.write(data)
        status, _, body = await reply_of(reader)
        assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_http")
        await closed(reader)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_client_that_offers_http2_is_answered_each_time(caplog: pytest.LogCaptureFixture) -> None:
    offer = b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}"
    async with served() as (connect, _, _):
        reader, writer = await connect()
        for _ in range(2):
            writer.write(offer)
            assert (await reply_of(reader))[0] == 200
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_pipelined_requests_are_answered_in_order_also_before_garbage() -> None:
    async with served() as (connect, _, _):
        reader, writer = await connect()
        writer.write(GET.replace(b"/ ", b"/slow ", 1) + b"garbage\r\n\r\n")
        assert (await reply_of(reader))[0] == 200
        await closed(reader)
        reader, writer = await connect()
        writer.write(GET + GET + GET)
        assert [(await reply_of(reader))[0] for _ in range(3)] == [200, 200, 200]


async def test_the_running_one_of_pipelined_requests_sees_its_client_leave() -> None:
    async with served() as (connect, app, _):
        _, writer = await connect()
        writer.transport.pause_reading()
        writer.write(GET.replace(b"/ ", b"/endless ", 1) + GET + GET)
        await asyncio.sleep(0.1)
        writer.transport.abort()
        await asyncio.wait_for(app.has_left.wait(), 5)


@pytest.mark.parametrize(
    ("limit", "url_bytes", "says"),
    [
        (2**16, 70_000, "65536 bytes (server.max_header_bytes)"),
        (2**16, 2**16 - 1, "65536 bytes (server.max_header_bytes)"),
        (2**18, 70_000, "the address in the request line is longer than 65535 bytes"),
    ],
)
async def test_an_address_too_long_to_be_taken_apart_is_431_too(limit: int, url_bytes: int, says: str) -> None:
    async with served(max_header_bytes=limit) as (connect, _, _):
        reader, writer = await connect()
        writer.write(b"GET /" + b"a" * url_bytes + b" HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers, body = await reply_of(reader)
        error = json.loads(body)["error"]
        assert (status, error["code"], headers["connection"]) == (431, "headers_too_large", "close")
        assert says in error["message"]


async def test_the_longest_address_is_served() -> None:
    async with served(max_header_bytes=2**18) as (connect, _, _):
        reader, writer = await connect()
        writer.write(GET.replace(b"/ ", b"/" + b"a" * (2**16 - 2) + b" ", 1))
        assert (await reply_of(reader))[0] == 200


async def test_an_answer_before_the_end_of_a_large_body_reaches_a_client_that_wants_to_close() -> None:
    """Closing with bytes unread would reset the connection, and take the answer along."""
    size = 20 * 2**20
    async with served() as (connect, _, _):
        reader, writer = await connect()
        head = f"POST /unread HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {size}\r\n\r\n"
        writer.write(head.encode() + b"x" * size)
        await asyncio.wait_for(writer.drain(), 10)
        assert (await reply_of(reader))[0] == 200
        await closed(reader)


async def test_a_client_that_wants_to_close_and_never_ends_its_body_is_cut_off() -> None:
    async with served(body_timeout_s=0.2) as (connect, _, server):
        reader, writer = await connect()
        writer.write(b"POST /unread HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 99\r\n\r\nx")
        assert (await reply_of(reader))[0] == 200
        await closed(reader)
