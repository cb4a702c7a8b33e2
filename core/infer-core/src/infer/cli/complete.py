"""`infer complete`: continue a text and stream the answer to standard output."""

from __future__ import annotations

import asyncio
import sys
from typing import TextIO

from infer.cli.commands import Invocation
from infer.cli.context import Context, open_context
from infer.cli.sampling import sampling_of
from infer_api.errors import ConfigError
from infer_api.services import TextDelta

__all__ = ["run", "stream_completion"]


def run(invocation: Invocation) -> int:
    """Entry of the command. Raises InferError."""
    prompt = invocation.arguments["prompt"]
    if prompt is None:
        if sys.stdin.isatty():
            raise ConfigError('infer complete needs a text: infer complete "Once upon a time", or on standard input')
        prompt = sys.stdin.read()
    context = open_context(invocation, quiet=True)
    asyncio.run(stream_completion(context, invocation, prompt, sys.stdout))
    return 0


async def stream_completion(context: Context, invocation: Invocation, prompt: str, out: TextIO) -> None:
    """Write the continuation of `prompt`, and a newline, to `out` as it comes. Raises InferError."""
    async with context.open_services() as services:
        sampling = sampling_of(invocation, services.models[0])
        rendered = services.renderer.text(prompt)
        checked = services.outputs.check([rendered], sampling)
        async for event in services.outputs.stream([rendered], checked, request_id="complete"):
            if isinstance(event, TextDelta):
                out.write(event.text)
                out.flush()
        out.write("\n")
