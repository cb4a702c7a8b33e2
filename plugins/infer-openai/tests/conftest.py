"""Services without an engine: a byte tokenizer and a pipeline that plays a script; the app over them, and clients."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import uvicorn

from infer_api.errors import InferError, RequestError
from infer_api.requests import SamplingParams
from infer_api.services import (
    Choice,
    Event,
    Finished,
    Limits,
    ModelCard,
    Rendered,
    Reply,
    Services,
    TextDelta,
    TokenText,
    Usage,
)
from infer_openai.routes import OpenAIRoutes

BOS = 256
LIMITS = Limits(
    max_body_bytes=65_536,
    max_n=8,
    max_logprobs=5,
    max_stop=4,
    max_logit_bias=10,
    max_prompts=4,
    max_bad_words=4,
    max_token_ids=50,
    max_sequences=10_000,
    max_prompt_tokens=None,
    max_json_depth=100,
)
CARD = ModelCard(
    id="tiny",
    aliases=("org/tiny-chat",),
    max_model_len=64,
    vocab_size=257,
    created_s=1_700_000_000,
    has_chat_template=True,
    defaults={"temperature": 0.6, "top_k": 20, "unknown_to_sampling": 1},
)


@dataclass
class ByteRenderer:
    """Bytes are tokens; special texts begin with BOS. Keeps what `chat` was given."""

    chats: list[tuple[Any, Any, Any]] = field(default_factory=list)
    refusal: RequestError | None = None

    def chat(self, messages: Sequence[Mapping[str, Any]], tools: Sequence[Any] = (), options: Any = None) -> Rendered:
        if self.refusal:
            raise self.refusal
        self.chats.append((list(messages), list(tools), dict(options or {})))
        return Rendered((BOS, *b"chat"), "chat", param="messages")

    def text(self, prompt: str | Sequence[int], *, special: bool = True, param: str = "prompt") -> Rendered:
        if isinstance(prompt, str):
            return Rendered((*([BOS] if special else []), *prompt.encode()), prompt, param=param)
        if any(not 0 <= token_id < CARD.vocab_size for token_id in prompt):
            raise RequestError(f"{param} holds ids outside of the vocabulary", param=param)
        return Rendered(tuple(prompt), param=param)

    def detokenize(self, ids: Sequence[int]) -> str:
        return bytes(token_id for token_id in ids if token_id != BOS).decode("utf-8", "replace")

    def token_text(self, token_id: int) -> str:
        return "<s>" if token_id == BOS else bytes([token_id]).decode("utf-8", "replace")


@dataclass
class ScriptedOutputs:
    """Every choice says `pieces(index)` and ends with `end`. Choices take turns, the last one first."""

    pieces: Callable[[int], list[str]] = lambda index: ["Par", "is", f" {index}"]
    end: tuple[str, str | int | None] = ("stop", None)
    fails_at: int | None = None
    failure: Exception | None = None
    hangs_at: int | None = None
    asked: list[SamplingParams] = field(default_factory=list)
    prompts: list[Rendered] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)
    traces: list[str] = field(default_factory=list)
    num_open: int = 0
    num_aborted: int = 0

    def check(self, prompts: Sequence[Rendered], sampling: SamplingParams) -> SamplingParams:
        if not 1 <= sampling.n <= LIMITS.max_n:
            raise RequestError(f"n must be from 1 to {LIMITS.max_n}", param="n")
        for prompt in prompts:
            if len(prompt.prompt_ids) + (sampling.max_tokens or 1) > CARD.max_model_len:
                raise RequestError("max_tokens is too large", param="max_tokens", code="context_length_exceeded")
        return sampling

    async def stream(
        self,
        prompts: Sequence[Rendered],
        sampling: SamplingParams,
        *,
        request_id: str,
        client_id: str = "",
        traceparent: str = "",
    ) -> AsyncGenerator[Event, None]:
        self.asked.append(sampling)
        self.prompts.extend(prompts)
        self.clients.append(client_id)
        self.traces.append(traceparent)
        self.num_open += 1
        is_complete = False
        try:
            for at, event in enumerate(self._events(len(prompts) * sampling.n, sampling.logprobs)):
                if at == self.fails_at:
                    raise self.failure or RequestError("generation failed", code="generation_failed", status=500)
                if at == self.hangs_at:
                    await asyncio.sleep(60)
                await asyncio.sleep(0)
                yield event
            yield Usage(sum(len(prompt.prompt_ids) for prompt in prompts), 7, cached_tokens=2)
            is_complete = True
        except InferError:
            is_complete = True
            raise
        finally:
            self.num_open -= 1
            self.num_aborted += not is_complete

    def _events(self, num_choices: int, logprobs: int | None) -> Iterator[Event]:
        scripts = {index: self.pieces(index) for index in reversed(range(num_choices))}
        for turn in range(max(map(len, scripts.values())) + 1):
            for index, script in scripts.items():
                if turn < len(script):
                    yield _delta(index, script[turn], logprobs)
                elif turn == len(script):
                    yield Finished(index, *self.end)

    async def collect(self, events: AsyncIterator[Event]) -> Reply:
        texts: dict[int, list[TextDelta]] = {}
        ends: dict[int, Finished] = {}
        usage = Usage(0, 0)
        async for event in events:
            if isinstance(event, TextDelta):
                texts.setdefault(event.index, []).append(event)
            elif isinstance(event, Finished):
                ends[event.index] = event
            else:
                usage = event
        return Reply(tuple(_choice(ends[index], texts.get(index, [])) for index in sorted(ends)), usage)


def _choice(end: Finished, deltas: list[TextDelta]) -> Choice:
    text = "".join(delta.text for delta in deltas)
    tokens = tuple(token for delta in deltas for token in delta.tokens)
    return Choice(end.index, text, end.reason, end.stop_reason, tokens)


def _delta(index: int, text: str, logprobs: int | None) -> TextDelta:
    if logprobs is None:
        return TextDelta(index, text)
    top = tuple(TokenText(rank, f"t{rank}", (rank,), -math.inf if rank else -0.25) for rank in range(logprobs))
    return TextDelta(index, text, (TokenText(1, text, tuple(text.encode()), -0.5, top),))


@dataclass
class OpenGuard:
    def allows(self, authorization: str | None) -> bool:
        return True


@pytest.fixture
def parts() -> tuple[ModelCard, Limits, OpenGuard]:
    """What services need beside an engine and a tokenizer."""
    return CARD, LIMITS, OpenGuard()


@pytest.fixture
def renderer() -> ByteRenderer:
    return ByteRenderer()


@pytest.fixture
def outputs() -> ScriptedOutputs:
    return ScriptedOutputs()


@pytest.fixture
def app(renderer: ByteRenderer, outputs: ScriptedOutputs) -> Any:
    """The routes in the real server app: errors, limits and body checks are its business."""
    server = pytest.importorskip("infer_server.app", reason="these routes need the distribution infer-server")
    services = Services(
        engine=None,
        renderer=renderer,
        outputs=outputs,
        models=(CARD,),
        guard=OpenGuard(),
        limits=LIMITS,
        version="0.1.0",
        fingerprint="fp_1",
    )
    return server.make_app(services, [OpenAIRoutes(None).router(services)])


@pytest.fixture
async def client(app: Any) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as opened:
        yield opened


@contextmanager
def _serving(app: Any) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, log_level="critical", lifespan="off"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture
def url(app: Any) -> Iterator[str]:
    """Address of the app behind a real socket, served by a thread."""
    with _serving(app) as address:
        yield address
