"""`infer bench sweep`: the load of `serve` at every point of a grid, a file for each, a summary and plots."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from infer_api.commands import CommandContext
from infer_api.errors import ConfigError
from infer_bench.online import load_facts
from infer_bench.options import BenchOptions
from infer_bench.plots import check_plots, draw
from infer_bench.points import Point, all_points
from infer_bench.report import grid, shown, write_json
from infer_bench.serve import check_load, measure, targets
from infer_bench.server import config_flags

__all__ = ["run_sweep"]

SHOWN = ("request_throughput", "output_throughput", "median_ttft_ms", "p99_itl_ms", "median_e2el_ms", "failed")


def run_sweep(context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
    """0, or 1 when a request failed. Raises ConfigError before anything starts for what is known to be wrong."""
    # The plots want the 99th percentile, whatever else is asked for.
    options = options.model_copy(update={"percentiles": tuple(sorted({*options.percentiles, 99.0}))})
    check_load(context, arguments, options)
    points = all_points(options)
    if options.vary and options.base_url:
        raise ConfigError("--vary starts servers of its own: leave out --base-url")
    if options.plots:
        check_plots()
    folder = Path(options.output_dir).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    _measure_missing(context, options, points, folder)
    rows = [_row(point, _read(folder / point.file_name)) for point in points]
    _write_summary(folder, rows)
    files = ["summary.csv", "summary.json", *(draw(rows, folder) if options.plots else [])]
    sys.stdout.write(_text(context, rows))
    context.say(f"written to {folder}: {', '.join(files)}, and a file for each point")
    return 1 if any(row["failed"] for row in rows) else 0


def _measure_missing(context: CommandContext, options: BenchOptions, points: list[Point], folder: Path) -> None:
    """Measure what the folder does not have; a server is started only for the points that need it."""
    about = {point: _about(context, options, point) for point in points}
    missing = [point for point in points if options.overwrite or not _has(folder / point.file_name, about[point])]
    if len(missing) < len(points):
        context.say(
            f"{len(points) - len(missing)} of {len(points)} points are there already (--overwrite measures again)"
        )
    for flags, of_server in groupby(missing, key=lambda point: point.server_flags):
        with targets(context, options, flags) as found:
            for point in of_server:
                context.say(f"point {point.file_name.removesuffix('.json')}")
                measured = measure(options.model_copy(update=point.load), found, options.repeat or 1, context.say)
                write_json(str(folder / point.file_name), about[point] | measured.to_dict())


def _about(context: CommandContext, options: BenchOptions, point: Point) -> dict[str, Any]:
    facts = load_facts("sweep", options, options.repeat or 1)
    for name in ("request_rates", "concurrencies", "vary", "output_dir", "overwrite", "plots", "ready_timeout"):
        del facts["settings"][name]
    facts["settings"] |= {**point.load, "server_flags": list(point.server_flags)}
    if options.base_url is None:
        facts["settings"]["server_config"] = config_flags(context.config)
    return facts


def _has(file: Path, about: Mapping[str, Any]) -> bool:
    """Whether the point was measured. Raises ConfigError when it was, but with other settings."""
    if not file.exists():
        return False
    found = _read(file).get("settings", {})
    other = sorted(name for name, value in about["settings"].items() if found.get(name) != value)
    if other:
        raise ConfigError(
            f"{file} was measured with another {', '.join(other)}: choose another --output-dir, or add --overwrite"
        )
    return True


def _read(file: Path) -> dict[str, Any]:
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as the result of a point: {error}; remove it") from error
    if not isinstance(data, dict) or "contenders" not in data:
        raise ConfigError(f"{file} is not the result of a point; remove it")
    return data


def _row(point: Point, data: Mapping[str, Any]) -> dict[str, Any]:
    (figures,) = (contender["median"] for contender in data["contenders"].values())
    return {"series": point.series, **point.load, **figures}


def _write_summary(folder: Path, rows: list[dict[str, Any]]) -> None:
    write_json(str(folder / "summary.json"), {"bench": "sweep", "schema": 1, "points": rows})
    with (folder / "summary.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def _text(context: CommandContext, rows: list[dict[str, Any]]) -> str:
    head = ["", *(name.replace("_", " ") for name in SHOWN)]
    lines = [[_label(row), *(shown(row[name]) for name in SHOWN)] for row in rows]
    return grid(f"sweep of {context.config.model.name}: {len(rows)} points", [head, *lines])


def _label(row: Mapping[str, Any]) -> str:
    bound = row["max_concurrency"]
    load = f"{row['request_rate']}/s" if bound is None else f"{bound} at once"
    return f"{row['series']} {load}".strip()
