"""`infer pull MODEL`: fetch a model into the cache, and say where it lies."""

from __future__ import annotations

from infer.cli.commands import Invocation
from infer.cli.context import open_context
from infer.config.sizes import format_size
from infer.model.source import ensure_model

__all__ = ["run"]


def run(invocation: Invocation) -> int:
    """Entry of the command. Raises ModelError."""
    context = open_context(invocation, quiet=True)
    model = ensure_model(context.config, context.index)
    files = [model.path] if model.path.is_file() else [path for path in model.path.iterdir() if path.is_file()]
    print(f"{model.name}: {model.path} ({format_size(sum(path.stat().st_size for path in files))})")
    return 0
