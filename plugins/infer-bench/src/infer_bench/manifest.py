"""The command `bench`."""

from __future__ import annotations

from infer_api.manifest import CommandPlugin, CommandSupport
from infer_bench.options import BenchOptions

__all__ = ["BENCH"]

BENCH = CommandPlugin(
    name="bench",
    summary="Measure throughput or latency, alone or against another engine in the same run.",
    implementation="infer_bench.command:BenchCommand",
    options=BenchOptions,
    supports=CommandSupport(
        arguments=(("model?", "a folder, a file, an alias, or a name such as pypi:NAME or a hub id (default: auto)"),),
        subcommands=(
            ("throughput", "Many requests at once: requests and tokens per second."),
            ("latency", "One request at a time: time to first token, time per token."),
        ),
        takes_config=True,
    ),
)
