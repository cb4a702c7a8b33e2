"""A small HTTP/1.1 client over plain sockets: cheap for hundreds of clients, and able to be rude."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Address", "Connection", "Gone", "Head", "exchange", "get", "get_json", "post", "request_bytes"]


class Gone(Exception):
    """The server closed the connection before its answer was complete."""


@dataclass(frozen=True)
class Address:
    """Where a server listens."""

    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Address:
        """Read from "http://host:port"."""
        parts = urlsplit(url)
        assert parts.scheme == "http", f"only http:// is spoken here, not {url}"
        return cls(parts.hostname or "127.0.0.1", parts.port or 80)


@dataclass(frozen=True)
class Head:
    """Status line and headers of an answer; names are in lower case."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)


def request_bytes(method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None) -> bytes:
    """A whole request. `headers` replace the usual ones; one that is "" is left out."""
    usual = {"Host": "load", "Connection": "close"}
    if body or method == "POST":
        usual |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines = [f"{name}: {value}" for name, value in {**usual, **(headers or {})}.items() if value != ""]
    return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("utf-8", "surrogateescape") + body


class Connection:
    """One connection for one request. Leaving the block closes it, whatever is still under way."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Connection:
        self._reader, self._writer = await asyncio.open_connection(self._address.host, self._address.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._writer is not None
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def send(self, data: bytes) -> None:
        assert self._writer is not None
        self._writer.write(data)
        await self._writer.drain()

    def reset(self) -> None:
        """Make the coming close a reset (RST) instead of an orderly end."""
        assert self._writer is not None
        plain: socket.socket = self._writer.get_extra_info("socket")
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    async def head(self) -> Head:
        """Read up to the end of the headers of the answer proper. Raises Gone."""
        while (head := await self._any_head()).status == 100:
            pass
        return head

    async def _any_head(self) -> Head:
        assert self._reader is not None
        try:
            raw = await self._reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise Gone("no answer") from error
        first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
        pairs = (line.partition(":") for line in lines)
        return Head(int(first.split()[1]), {name.strip().lower(): value.strip() for name, _, value in pairs})

    async def pieces(self, head: Head) -> AsyncIterator[bytes]:
        """The body as it comes. Raises Gone when it is cut short."""
        assert self._reader is not None
        try:
            if head.headers.get("transfer-encoding", "").lower() == "chunked":
                while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
                    yield (await self._reader.readexactly(size + 2))[:-2]
            elif "content-length" in head.headers:
                yield await self._reader.readexactly(int(head.headers["content-length"]))
            else:
                while data := await self._reader.read(65536):
                    yield data
        except (asyncio.IncompleteReadError, ConnectionError, ValueError) as error:
            raise Gone("the answer was cut short") from error

    async def events(self, head: Head) -> AsyncIterator[str]:
        """Data of server-sent events, [DONE] among them."""
        rest = b""
        async for piece in self.pieces(head):
            *whole, rest = (rest + piece).split(b"\n\n")
            for event in whole:
                yield event.decode("utf-8").removeprefix("data: ")


async def exchange(address: Address, data: bytes, timeout_s: float = 60.0) -> tuple[Head, bytes]:
    """Send bytes, read one whole answer. Raises Gone, or TimeoutError."""
    async with asyncio.timeout(timeout_s), Connection(address) as connection:
        await connection.send(data)
        head = await connection.head()
        return head, b"".join([piece async for piece in connection.pieces(head)])


async def post(address: Address, path: str, body: Any, timeout_s: float = 60.0) -> tuple[Head, bytes]:
    """POST a JSON body."""
    return await exchange(address, request_bytes("POST", path, json.dumps(body).encode()), timeout_s)


async def get(address: Address, path: str, timeout_s: float = 30.0) -> tuple[Head, bytes]:
    """GET a path."""
    return await exchange(address, request_bytes("GET", path), timeout_s)


async def get_json(address: Address, path: str) -> Any:
    """GET a path that must answer 200 with JSON."""
    head, body = await get(address, path)
    assert head.status == 200, f"{path} answered {head.status}: {body[:300]!r}"
    return json.loads(body)
