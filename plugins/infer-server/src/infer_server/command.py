"""`infer serve`: open the port, load the model, answer until told to stop."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Callable, Mapping
from typing import Any

from infer_api.commands import CommandContext
from infer_server.listen import allow_connections, open_socket
from infer_server.serving import serve
from infer_server.tls import make_tls

__all__ = ["ServeCommand"]


class ServeCommand:
    """The command; `arguments` are already part of `context.config`."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: Any) -> int:
        """0 after SIGINT or SIGTERM, 1 when the engine died. Raises ConfigError for a taken port or wrong TLS files."""
        settings = context.config.server
        tls = make_tls(settings.tls_certificate, settings.tls_key)
        allow_connections(settings.max_connections)
        with (
            open_socket(settings.host, settings.port) as listener,
            asyncio.Runner(loop_factory=_loop_factory()) as runner,
        ):
            return runner.run(serve(context, listener, tls))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if importlib.util.find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop
