"""`infer bench`: which subcommand runs, and what is refused before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from infer_api.commands import CommandContext
from infer_bench.options import BenchOptions, check_used
from infer_bench.report import check_writable

__all__ = ["BenchCommand"]

# Imported when one is run: what one of them needs is no burden for the others.
RUNS = {
    "throughput": "infer_bench.offline:run_offline",
    "latency": "infer_bench.offline:run_offline",
    "serve": "infer_bench.online:run_serve",
    "startup": "infer_bench.startup:run_startup",
    "sweep": "infer_bench.sweep:run_sweep",
}


class BenchCommand:
    """The command. Tables go to standard output, progress to standard error."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
        """0; 1 when requests of a load failed. What goes wrong otherwise is raised as an InferError."""
        check_used(options, arguments["subcommand"])
        check_writable(options.json_file)
        module, _, name = RUNS[arguments["subcommand"]].partition(":")
        return int(getattr(import_module(module), name)(context, arguments, options))
