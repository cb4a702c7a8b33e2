"""`infer complete`: continue a text and stream the answer to standard output."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Any, TextIO

from infer_api.commands import CommandContext
from infer_api.errors import ConfigError
from infer_api.services import TextDelta
from infer_chat.options import SamplingOptions

__all__ = ["CompleteCommand"]


class CompleteCommand:
    """The command."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: SamplingOptions) -> int:
        """Always 0. Raises ConfigError without a text, RequestError for one that is refused."""
        prompt = arguments["prompt"]
        if prompt is None:
            if sys.stdin.isatty():
                raise ConfigError('infer complete needs a text: infer complete "Once upon a time", or standard input')
            prompt = sys.stdin.read()
        if not prompt:
            raise ConfigError('infer complete got an empty text; write: infer complete "Once upon a time"')
        asyncio.run(_stream(context, options, prompt, sys.stdout))
        return 0


async def _stream(context: CommandContext, options: SamplingOptions, prompt: str, out: TextIO) -> None:
    """Write the continuation of `prompt`, and a newline, to `out` as it comes."""
    async with context.open_services() as services:
        rendered = services.renderer.text(prompt)
        sampling = services.outputs.check([rendered], options.sampling(services.models[0]))
        async for event in services.outputs.stream([rendered], sampling, request_id="complete"):
            if isinstance(event, TextDelta):
                out.write(event.text)
                out.flush()
        out.write("\n")
