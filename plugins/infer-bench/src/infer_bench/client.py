"""One request over HTTP, timed event by event."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp

from infer_bench.prompts import Prompt
from infer_bench.records import RequestRecord, StreamError, Tally
from infer_bench.sse import EventParser
from infer_bench.target import Target

__all__ = ["StreamClient"]


@dataclass(frozen=True)
class StreamClient:
    """Sends prompts to one target. `extra` are fields of the body beside prompt and length."""

    session: aiohttp.ClientSession
    target: Target
    extra: Mapping[str, Any]

    async def send(self, prompt: Prompt, record: RequestRecord) -> None:
        """Send one prompt and write into `record` what came of it; failures are written, not raised."""
        sent = time.perf_counter()
        tally = Tally(sent)
        try:
            try:
                ended = await self._read(self._body(prompt), tally)
            except aiohttp.ClientConnectorError as error:
                raise StreamError("no connection", str(error)) from error
            except TimeoutError as error:
                raise StreamError("timed out", str(error)) from error
            except (aiohttp.ClientError, ConnectionError) as error:
                raise StreamError("cut short", f"{type(error).__name__}: {error}") from error
            tally.fill(record, ended)
        except StreamError as error:
            record.error, record.detail = error.kind, error.detail
            record.e2el_s = time.perf_counter() - sent

    async def _read(self, body: dict[str, Any], tally: Tally) -> float:
        """Read the stream to its end, and return when that was."""
        parser = EventParser()
        async with self.session.post(f"{self.target.base_url}{self.target.endpoint}", json=body) as reply:
            if reply.status != 200:
                raise StreamError(f"HTTP {reply.status}", (await reply.text(errors="replace"))[:400])
            if reply.content_type != "text/event-stream":
                raise StreamError("no event stream", f"the content type is {reply.content_type}")
            ended = 0.0
            async for piece in reply.content.iter_any():
                now = time.perf_counter()
                for event in parser.feed(piece):
                    tally.take(event, now)
                if tally.is_done and not ended:
                    ended = now
            for event in parser.close():
                tally.take(event, time.perf_counter())
            return ended or time.perf_counter()

    def _body(self, prompt: Prompt) -> dict[str, Any]:
        content = (
            {"messages": [{"role": "user", "content": prompt.content}]}
            if self.target.is_chat
            else {"prompt": prompt.content}
        )
        return {
            "model": self.target.model,
            **content,
            "max_tokens": prompt.output_len,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.extra,
        }
