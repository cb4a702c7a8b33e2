"""One conversation with a model: history, streamed answers, and the commands that a user may type."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Console

from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Services, TextDelta, Usage

__all__ = ["Conversation", "TurnStats"]

HELP = """/stats  speed of the last answer and of the whole conversation
/clear  forget the conversation
/help   this list
/exit   leave (so does Ctrl-D); Ctrl-C stops an answer"""


@dataclass
class TurnStats:
    """One answer. Times in seconds; `first_s` is from sending the prompt to the first text."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    first_s: float = 0.0
    total_s: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Speed of decoding: tokens after the first, over the time after it."""
        decode_s = self.total_s - self.first_s
        return (self.completion_tokens - 1) / decode_s if self.completion_tokens > 1 and decode_s > 0 else 0.0

    def __str__(self) -> str:
        return (
            f"{self.prompt_tokens} prompt tokens, {self.completion_tokens} new, {self.tokens_per_s:.1f} tokens/s, "
            f"first after {1000 * self.first_s:.0f} ms"
        )


@dataclass
class Conversation:
    """One chat. `ask` reads one line of the user; EOFError from it ends the chat."""

    services: Services
    sampling: SamplingParams
    console: Console
    ask: Callable[[], str]
    system: str | None = None
    messages: list[dict[str, str]] = field(default_factory=list)
    turns: list[TurnStats] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._clear()

    def loop(self, runner: asyncio.Runner) -> None:
        """Ask and answer until the user leaves. An answer that fails or is interrupted does not end the chat."""
        while True:
            try:
                line = self.ask().strip()
            except (EOFError, KeyboardInterrupt):
                self.console.print()
                return
            if line == "/exit":
                return
            if line.startswith("/"):
                self._command(line)
            elif line:
                self._turn(line, runner)

    def _command(self, line: str) -> None:
        if line == "/clear":
            self._clear()
            self.console.print("The conversation is forgotten.", style="dim")
        elif line == "/stats":
            self.console.print(self._stats(), style="dim", highlight=False)
        else:
            unknown = "" if line == "/help" else f"unknown command {line}\n"
            self.console.print(unknown + HELP, style="dim", highlight=False, markup=False)

    def _clear(self) -> None:
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def _stats(self) -> str:
        if not self.turns:
            return "Nothing was answered yet."
        tokens = sum(turn.completion_tokens for turn in self.turns)
        seconds = sum(turn.total_s for turn in self.turns)
        whole = f"all {len(self.turns)}: {tokens} new tokens in {seconds:.1f} s"
        return f"last answer: {self.turns[-1]}\n{whole}"

    def _turn(self, line: str, runner: asyncio.Runner) -> None:
        self.messages.append({"role": "user", "content": line})
        said: list[str] = []
        try:
            self.turns.append(runner.run(self._answer(said)))
        except RequestError as error:
            self.console.print(f"refused: {error}", style="red", markup=False, highlight=False)
        except KeyboardInterrupt:
            self.console.print(" [stopped]", style="dim", markup=False)
        if said:
            self.messages.append({"role": "assistant", "content": "".join(said)})
        else:
            self.messages.pop()  # a question that got no answer would be asked again with the next one

    async def _answer(self, said: list[str]) -> TurnStats:
        """Stream one answer to the console, collecting it in `said`."""
        pipeline = self.services.outputs
        prompt = self.services.renderer.chat(self.messages)
        sampling = pipeline.check([prompt], self.sampling)
        stats, started = TurnStats(), time.perf_counter()
        async for event in pipeline.stream([prompt], sampling, request_id=f"chat-{len(self.turns)}"):
            if isinstance(event, TextDelta) and event.text:
                stats.first_s = stats.first_s or time.perf_counter() - started
                said.append(event.text)
                self.console.print(event.text, end="", markup=False, highlight=False, soft_wrap=True)
            elif isinstance(event, Usage):
                stats.prompt_tokens, stats.completion_tokens = event.prompt_tokens, event.completion_tokens
        stats.total_s = time.perf_counter() - started
        self.console.print()
        return stats
