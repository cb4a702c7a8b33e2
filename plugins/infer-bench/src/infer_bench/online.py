"""`infer bench serve`: measure, print, write."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from infer_api.commands import CommandContext
from infer_bench.figures import TIMES, statistics_of
from infer_bench.options import BenchOptions, plain
from infer_bench.report import grid, shown, surroundings, table, write_json
from infer_bench.results import Metric
from infer_bench.serve import DEFAULT_PROMPTS, Measured, check_load, measure, targets

__all__ = ["load_facts", "load_text", "run_serve"]

ROUNDS_WITH_PEER = 3


def run_serve(context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
    """0, or 1 when a request failed. Raises ConfigError before anything starts for what is known to be wrong."""
    check_load(context, arguments, options)
    repeat = options.repeat or (ROUNDS_WITH_PEER if options.peer_url else 1)
    with targets(context, options) as found:
        measured = measure(options, found, repeat, context.say)
    sys.stdout.write(load_text(options, measured, repeat))
    if options.json_file is not None:
        write_json(options.json_file, load_facts("serve", options, repeat) | measured.to_dict())
        context.say(f"written to {options.json_file}")
    return 1 if any(told["errors"] for told in measured.rounds) else 0


def load_facts(subcommand: str, options: BenchOptions, repeat: int) -> dict[str, Any]:
    """What somebody must know to compare a file with another one."""
    settings = {**plain(options, subcommand), "repeat": repeat, "num_prompts": options.num_prompts or DEFAULT_PROMPTS}
    return {
        "bench": "serve",
        "schema": 1,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": settings,
        **surroundings(),
    }


def load_text(options: BenchOptions, measured: Measured, repeat: int) -> str:
    """Totals, times and errors; with two servers everything in two columns and the ratios."""
    load = f"{options.num_prompts or DEFAULT_PROMPTS} {options.dataset} prompts at {options.request_rate}/s"
    bound = f", at most {options.max_concurrency} at once" if options.max_concurrency else ""
    where = " and ".join(f"{target.model} at {target.base_url}" for target in measured.targets)
    title = f"serve of {where}: {load}{bound}, " + ("1 round" if repeat == 1 else f"median of {repeat} rounds")
    if len(measured.targets) > 1:
        return table(title, measured.results) + _notes(measured)
    return grid(title, _totals(measured)) + grid("", _times(options, measured)) + _notes(measured)


def _totals(measured: Measured) -> list[list[str]]:
    metrics = [
        metric for metric in measured.results.metrics if not metric.key.endswith(tuple(f"_{t}_ms" for t in TIMES))
    ]
    return [[metric.label, _median(measured, metric)] for metric in metrics]


def _times(options: BenchOptions, measured: Measured) -> list[list[str]]:
    names = statistics_of(options.percentiles)
    found = {metric.key: metric for metric in measured.results.metrics}
    rows = [
        [f"{time.upper()} ({meaning}), ms", *(_median(measured, found[f"{name}_{time}_ms"]) for name in names)]
        for time, meaning in TIMES.items()
    ]
    return [["", *names], *rows]


def _median(measured: Measured, metric: Metric) -> str:
    return shown(measured.results.find_median(measured.targets[0].name, metric))


def _notes(measured: Measured) -> str:
    sources = sorted({str(told["output_tokens_from"]) for told in measured.rounds})
    lines = [f"output tokens are counted by: {', '.join(sources)}"]
    for told in measured.rounds:
        for kind, count in told["errors"].items():
            example = told["error_examples"][kind]
            lines.append(f"round {told['round'] + 1}, {told['target']}: {count} failed, {kind}: {example}")
    return "\n".join(lines) + "\n"
