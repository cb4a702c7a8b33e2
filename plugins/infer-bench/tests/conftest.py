"""A command context whose engine answers with scripted tokens, and servers that answer with scripted bytes."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from infer_api.requests import SamplingParams
from infer_api.services import Finished, Rendered, TextDelta, Usage

VOCAB_SIZE = 50


@dataclass
class FakeEngine:
    """Both ways into infer: `generate` as an LLM, `check` and `stream` as an output pipeline."""

    lost_tokens: int = 0
    calls: list[tuple[list[list[int]], SamplingParams]] = field(default_factory=list)
    num_closed: int = 0

    @property
    def tokenizer(self) -> Any:
        return SimpleNamespace(vocab_size=VOCAB_SIZE)

    def generate(self, prompts: Sequence[Sequence[int]], sampling: SamplingParams) -> list[Any]:
        self.calls.append(([list(prompt) for prompt in prompts], sampling))
        ids = tuple(range((sampling.max_tokens or 0) - self.lost_tokens))
        return [SimpleNamespace(outputs=(SimpleNamespace(token_ids=ids),)) for _ in prompts]

    def close(self) -> None:
        self.num_closed += 1

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        self.calls.append(([list(prompt.prompt_ids) for prompt in prompts], sampling))
        return sampling

    async def stream(self, prompts: Any, sampling: SamplingParams, *, request_id: str) -> AsyncIterator[Any]:
        left = (sampling.max_tokens or 0) - self.lost_tokens
        while left > 0:
            # Two tokens make a character: they come together.
            yield TextDelta(0, "é", token_ids=(1, 2)[:left])
            left -= 2
        yield TextDelta(0, "", token_ids=())
        yield Finished(0, "length")
        yield Usage(1, 1)


class FakeModel(BaseModel):
    name: str = "tiny"
    dtype: str = "float32"
    max_model_len: int | None = None
    served_names: tuple[str, ...] = ()


class FakePlatform(BaseModel):
    name: str = "auto"


class FakeServer(BaseModel):
    host: str = "0.0.0.0"
    port: int = 8000
    api_keys: tuple[str, ...] = ()
    tls_certificate: str | None = None
    docs: bool = True


class FakeConfig(BaseModel):
    """The parts of a configuration that benchmarks look at, in the shape of the real one."""

    model: Annotated[FakeModel, Field(json_schema_extra={"kind": "models"})]
    platform: Annotated[FakePlatform, Field(json_schema_extra={"kind": "platforms"})] = FakePlatform()
    server: FakeServer = FakeServer()
    plugin_options: dict[str, dict[str, dict[str, Any]]] = {}


@dataclass
class FakeContext:
    engine: FakeEngine = field(default_factory=FakeEngine)
    said: list[str] = field(default_factory=list)
    model: str = "tiny"
    api_keys: tuple[str, ...] = ()

    @property
    def config(self) -> Any:
        return FakeConfig(
            model=FakeModel(name=self.model),
            server=FakeServer(api_keys=self.api_keys),
            plugin_options={"platforms": {"cpu": {"threads": 2}}},
        )

    def open_llm(self) -> FakeEngine:
        return self.engine

    @asynccontextmanager
    async def open_services(self) -> AsyncIterator[Any]:
        renderer = SimpleNamespace(text=lambda ids: Rendered(tuple(ids)))
        card = SimpleNamespace(vocab_size=VOCAB_SIZE)
        yield SimpleNamespace(renderer=renderer, outputs=self.engine, models=(card,))
        self.engine.close()

    def say(self, text: str) -> None:
        self.said.append(text)


@pytest.fixture
def context() -> FakeContext:
    return FakeContext()


class TurnKeeper:
    """A contender that writes down its turns, and whose tokens come after the given seconds."""

    def __init__(self, name: str, turns: list[tuple[str, Any]], times: Sequence[float] = ()) -> None:
        self.name = name
        self._turns = turns
        self._times = list(times)

    def generate(self, prompts: Any, output_len: int) -> None:
        self._turns.append((self.name, prompts))

    def token_times(self, prompt: Any, output_len: int) -> list[float]:
        self._turns.append((self.name, prompt))
        return self._times

    def close(self) -> None:
        self._turns.append((self.name, "closed"))


@pytest.fixture
def turn_keeper() -> Callable[..., TurnKeeper]:
    return TurnKeeper


@dataclass
class Stub:
    """An OpenAI-compatible server of bytes: answers are what the test says, when it says.

    `script(body)` gives the steps of an answer to a POST: seconds to wait (float), bytes to send as one chunk, or
    "cut" to drop the connection. Each answer is a stream of events unless `status` says otherwise.
    """

    script: Callable[[dict[str, Any]], Sequence[float | bytes | str]]
    status: int = 200
    content_type: str = "text/event-stream"
    has_tokenize: bool = True
    key: str = ""
    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("ascii").splitlines()
                headers = {name.lower(): text.strip() for name, _, text in (line.partition(":") for line in lines[1:])}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                self.headers.append(headers)
                await self._reply(lines[0].split()[1], json.loads(body) if body else {}, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _reply(self, path: str, body: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        if path == "/v1/models":
            data = {"data": [{"id": "stub", "vocab_size": VOCAB_SIZE}, {"id": "other"}]}
            return await self._json(200, data, writer)
        if path == "/tokenize" and self.has_tokenize:
            return await self._json(200, {"count": len(body["prompt"].split()) + 1}, writer)
        if not path.endswith("completions"):
            return await self._json(404, {"error": {"message": "no such path"}}, writer)
        self.bodies.append(body)
        if self.status != 200 or self.content_type != "text/event-stream":
            return await self._json(self.status, {"error": {"message": "scripted"}}, writer)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head)
        for step in self.script(body):
            if isinstance(step, float):
                await asyncio.sleep(step)
            elif isinstance(step, bytes):
                writer.write(b"%x\r\n%s\r\n" % (len(step), step))
                await writer.drain()
            else:
                writer.transport.abort()
                return None
        writer.write(b"0\r\n\r\n")
        return await writer.drain()

    async def _json(self, status: int, data: Any, writer: asyncio.StreamWriter) -> None:
        text = json.dumps(data).encode()
        writer.write(
            b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (status, len(text))
        )
        writer.write(text)
        await writer.drain()


def sse(data: Any, end: bytes = b"\n\n") -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + end


def piece(text: str, finish: str | None = None) -> bytes:
    return sse({"choices": [{"index": 0, "text": text, "finish_reason": finish}]})


def answer_of(body: dict[str, Any], *, first_s: float = 0.0, gap_s: float = 0.0) -> list[float | bytes]:
    """A whole answer: as many words as asked for, then the usage."""
    steps: list[float | bytes] = [first_s]
    for at in range(body["max_tokens"]):
        steps += [gap_s if at else 0.0, piece(" word")]
    usage = {"prompt_tokens": 7, "completion_tokens": body["max_tokens"]}
    return [*steps, piece("", "length"), sse({"choices": [], "usage": usage}), sse(b"[DONE]")]


@contextmanager
def _running(stub: Stub) -> Iterator[Stub]:
    """The stub on a loop and a thread of its own, so that it does not share the client's."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    server = asyncio.run_coroutine_threadsafe(asyncio.start_server(stub.answer, "127.0.0.1", 0), loop).result()
    stub.port = server.sockets[0].getsockname()[1]

    async def end() -> None:
        server.close()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    try:
        yield stub
    finally:
        asyncio.run_coroutine_threadsafe(end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture
def serve_stub() -> Iterator[Callable[..., Stub]]:
    """Start a stub with a script; `answer`, `piece` and `sse` of this fixture help to write one."""
    with ExitStack() as stack:
        yield lambda script=answer_of, **facts: stack.enter_context(_running(Stub(script, **facts)))


@pytest.fixture
def events() -> Any:
    """Makers of events: `piece(text)`, `sse(data)`, `answer_of(body)`."""
    return SimpleNamespace(piece=piece, sse=sse, answer_of=answer_of)


FAKE_INFER = '''
"""Stands in for the program `infer`: answers 503 for a while, and then with one token."""
import http.server, json, os, sys, time
flags = dict(word[2:].partition("=")[::2] for word in sys.argv[2:] if word.startswith("--"))
open(os.path.join(os.path.dirname(__file__), "argv.txt"), "a").write(" ".join(sys.argv[1:]) + chr(10))
if flags.get("model.name") == "broken":
    sys.exit("no such model: broken")
time.sleep(0.1)
ready = time.monotonic() + 0.2

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"
    def log_message(self, *args): pass
    def reply(self, status, kind, text):
        self.send_response(status); self.send_header("Content-Type", kind); self.end_headers()
        self.wfile.write(text.encode())
    def do_GET(self):
        if self.path == "/v1/models":
            return self.reply(200, "application/json", json.dumps({"data": [{"id": flags["model.name"]}]}))
        self.reply(200 if self.path == "/health" or time.monotonic() > ready else 503, "application/json", "{}")
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.path.endswith("completions"):
            return self.reply(404, "application/json", "{}")
        time.sleep(0.05)
        chunk = json.dumps({"choices": [{"text": "x", "finish_reason": None}]})
        events = [chunk] * body["max_tokens"] + ["[DONE]"]
        self.reply(200, "text/event-stream", "".join("data: " + each + chr(10) * 2 for each in events))

http.server.ThreadingHTTPServer((flags["server.host"], int(flags["server.port"])), Handler).serve_forever()
'''


@pytest.fixture
def fake_infer(tmp_path: Path) -> tuple[str, ...]:
    """The words that run a stand-in of `infer`; it writes its own words to argv.txt beside it."""
    script = tmp_path / "fake_infer.py"
    script.write_text(FAKE_INFER)
    return (sys.executable, str(script))
