"""`infer chat`: a conversation in the terminal, streamed, with history."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from rich.console import Console

from infer_api.commands import CommandContext
from infer_api.services import Services
from infer_chat.conversation import Conversation
from infer_chat.options import ChatOptions

__all__ = ["ChatCommand"]


class ChatCommand:
    """The command."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: ChatOptions) -> int:
        """Always 0, when the user leaves. Raises InferError when the engine cannot start."""
        if sys.stdin.isatty():
            import readline  # noqa: F401 - gives input() its history and line editing

        console = Console()
        # A runner rather than asyncio.run: Ctrl-C cancels the answer in progress, and the loop lives on.
        with asyncio.Runner() as runner:
            stack = AsyncExitStack()
            services = runner.run(_entered(stack, context))
            try:
                card = services.models[0]
                greeting = f"{card.id}: {card.max_model_len} tokens. /help lists commands."
                console.print(greeting, style="dim", highlight=False)
                Conversation(services, options.sampling(card), console, _read_line, options.system).loop(runner)
            finally:
                runner.run(stack.aclose())
        return 0


async def _entered(stack: AsyncExitStack, context: CommandContext) -> Services:
    return await stack.enter_async_context(context.open_services())


def _read_line() -> str:
    return input("> " if sys.stdin.isatty() else "")
