"""What a command gets: configuration, the engine with a progress bar while it loads, and the routes that fit."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from infer.cli.commands import Invocation
from infer.observe.logs import log_line, set_up_logging
from infer.observe.progress import byte_progress
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.pluginset import PluginSet
from infer_api.errors import PluginError

if TYPE_CHECKING:
    from infer.config.sections import InferConfig
    from infer_api.services import Services

__all__ = ["Context", "open_context", "run_plugin_command"]

_log = logging.getLogger(__name__)


class Context:
    """An `infer_api.commands.CommandContext`."""

    def __init__(self, config: InferConfig, index: PluginIndex) -> None:
        self.config = config
        self.index = index.under(config.plugins)

    def open_services(self) -> AbstractAsyncContextManager[Services]:
        """Start the engine, with a progress bar, and close it on exit. Raises InferError when it cannot start."""
        return _opened(self.config, self.index, inline=None)

    def open_llm(self) -> Any:
        """The engine in this process, as an `infer.LLM`."""
        from infer.service.llm import LLM

        return LLM.from_services(lambda: _opened(self.config, self.index, inline=True))

    def routes(self, services: Services) -> list[tuple[str, Any]]:
        """(plugin name, router) of every routes plugin that may be mounted, in order of name.

        Third parties are mounted only when listed, under /x/<distribution>. Raises PluginError for one that fails.
        """
        routers = []
        for record in self.index.records("routes"):
            reason = self._why_not(record)
            if reason:
                _log.warning("routes of %s are not mounted: %s", record.qualified, reason)
                continue
            plugins = PluginSet.pin([record], self.config.options)
            router = plugins.make("routes", record.name).router(services)
            if self.index.is_third_party(record):
                router = _moved(router, f"/x/{record.distribution}", record)
            routers.append((record.name, router))
        return routers

    def say(self, text: str) -> None:
        """Print one line on standard error; with --log-format json it is a message like others."""
        if not log_line(logging.INFO, text):
            print(text, file=sys.stderr, flush=True)

    def _why_not(self, record: PluginRecord) -> str:
        if record.state == "failed":
            return record.reason
        if not self.index.is_preferred(record):
            return "plugins.prefer gives its name to another distribution"
        if self.index.is_third_party(record) and not self.index.is_listed(record):
            return f"third-party routes must be listed: --plugins.listed {record.distribution}"
        return ""


def _moved(router: Any, prefix: str, record: PluginRecord) -> Any:
    """The router's routes below `prefix`. Built by its own class: core knows no web framework."""
    try:
        outer = type(router)(prefix=prefix)
        outer.include_router(router)
    except (AttributeError, TypeError) as error:
        raise PluginError(f"{record.qualified} did not give a router that can be mounted: {error}") from error
    return outer


@asynccontextmanager
async def _opened(config: InferConfig, index: PluginIndex, *, inline: bool | None) -> AsyncIterator[Services]:
    from infer.model.source import ensure_model
    from infer.service.assemble import open_services

    # Fetched before the bar below appears: it has a bar of its own.
    model = ensure_model(config, index)
    with ExitStack() as bar:
        report = bar.enter_context(byte_progress(f"loading {model.name}"))
        services = open_services(config, index, inline=inline, progress=lambda what, done, total: report(done, total))
        async with services as opened:
            bar.close()
            yield opened


def open_context(invocation: Invocation, *, quiet: bool = False) -> Context:
    """The context of a command that takes the configuration; sets up logging.

    `quiet` commands log from warnings on, unless the user chose a level. Raises ConfigError.
    """
    effective = invocation.effective()
    said = effective.source("observability.log_level") != "default"
    observability = effective.config.observability
    level = observability.log_level if said or not quiet else "warning"
    set_up_logging(level, {record.package for record in invocation.index.records()}, observability.log_format)
    return Context(effective.config, invocation.index)


def run_plugin_command(invocation: Invocation) -> int:
    """Run a command that a distribution brought. Raises InferError."""
    record = invocation.command.record
    assert record is not None, "core's commands run by themselves"
    plugins = PluginSet.pin([record], lambda kind, name: invocation.options)
    options = plugins.options(record.kind, record.name)
    context = open_context(invocation, quiet=invocation.command.quiet)
    command = plugins.load(record.kind, record.name)()
    return int(command.run(context, invocation.arguments, options) or 0)
