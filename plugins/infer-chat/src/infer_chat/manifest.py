"""The commands `chat` and `complete`."""

from __future__ import annotations

from infer_api.manifest import CommandPlugin, CommandSupport
from infer_chat.options import ChatOptions, SamplingOptions

__all__ = ["CHAT", "COMPLETE"]

CHAT = CommandPlugin(
    name="chat",
    summary="Talk with a model in the terminal.",
    implementation="infer_chat.chat:ChatCommand",
    options=ChatOptions,
    supports=CommandSupport(arguments=(("model?", "Model to use; the same as --model."),), quiet=True),
)

COMPLETE = CommandPlugin(
    name="complete",
    summary="Continue a text; the answer streams to standard output.",
    implementation="infer_chat.complete:CompleteCommand",
    options=SamplingOptions,
    supports=CommandSupport(arguments=(("prompt?", "Text to continue. Unset: standard input."),), quiet=True),
)
