"""The command `bench`."""

from __future__ import annotations

from infer_api.manifest import CommandPlugin, CommandSupport
from infer_bench.options import BenchOptions

__all__ = ["BENCH"]

BENCH = CommandPlugin(
    name="bench",
    summary="Measure throughput, latency, a server under load, or its start; alone or against another.",
    implementation="infer_bench.command:BenchCommand",
    options=BenchOptions,
    supports=CommandSupport(
        arguments=(("model?", "a folder, a file, an alias, or a name such as pypi:NAME or a hub id (default: auto)"),),
        subcommands=(
            ("throughput", "Many requests at once: requests and tokens per second."),
            ("latency", "One request at a time: time to first token, time per token."),
            ("serve", "A load on any OpenAI-compatible server: TTFT, TPOT, ITL, E2EL, goodput."),
            ("startup", "New server processes: time to port, readiness and first token, peak memory."),
            ("sweep", "The load of serve over rates or concurrencies, and over server flags; with plots."),
        ),
        takes_config=True,
    ),
)
