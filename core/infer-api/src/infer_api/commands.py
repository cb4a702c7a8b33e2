"""Kind `commands`: subcommands of `infer` that a distribution adds, such as `serve`.

Names, help and flags are manifest data, so `infer --help` imports no command.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from infer_api.services import Services

__all__ = ["Command", "CommandContext"]


class CommandContext(Protocol):
    """What a command gets from core."""

    config: Any
    """The validated configuration (frozen; groups as attributes: `config.server.port`)."""

    def open_services(self) -> AbstractAsyncContextManager[Services]:
        """Start the engine, and close it on exit. Raises InferError when it cannot start."""
        ...

    def open_llm(self) -> Any:
        """The engine in this process, as an `infer.LLM` (generate, chat, close)."""
        ...

    def routes(self, services: Services) -> list[tuple[str, Any]]:
        """(plugin name, router) of every routes plugin that fits the model, in order of name."""
        ...

    def say(self, text: str) -> None:
        """Print one line for the user on standard error."""
        ...


class Command(Protocol):
    """Built by the manifest's `implementation()`."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: Any) -> int:
        """Run and return the exit status. `arguments` holds positionals and the subcommand ("subcommand");
        `options` is the validated options object of the manifest, or None."""
        ...
