"""The command `serve`."""

from __future__ import annotations

from infer_api.manifest import CommandPlugin, CommandSupport, Requires

__all__ = ["SERVE"]

SERVE = CommandPlugin(
    name="serve",
    summary="Serve a model over HTTP, with the routes of every installed routes plugin.",
    implementation="infer_server.command:ServeCommand",
    supports=CommandSupport(
        arguments=(("model?", "a folder, a file, an alias, or a name such as pypi:NAME or a hub id (default: auto)"),),
        takes_config=True,
    ),
    requires=Requires(modules=("fastapi", "httptools", "uvicorn")),
)
