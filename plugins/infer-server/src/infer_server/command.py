"""`infer serve`: open the port, load the model, answer until told to stop."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from infer_api.commands import CommandContext
from infer_server.listen import open_socket
from infer_server.serving import serve

__all__ = ["ServeCommand"]


class ServeCommand:
    """The command; `arguments` are already part of `context.config`."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: Any) -> int:
        """0 after SIGINT or SIGTERM, 1 when the engine died. Raises ConfigError when the port is taken."""
        settings = context.config.server
        with (
            open_socket(settings.host, settings.port) as listener,
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            return runner.run(serve(context, listener))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
