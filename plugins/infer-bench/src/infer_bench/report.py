"""Results for people (a table) and for machines (a JSON file)."""

from __future__ import annotations

import json
import os
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

from infer_api.errors import ConfigError
from infer_bench.results import Metric, Results
from infer_bench.workload import Workload

__all__ = ["check_writable", "facts", "grid", "shown", "surroundings", "table", "write_json"]

_LIBRARIES = ("infer-core", "infer-bench", "torch", "transformers", "aiohttp")


def table(title: str, results: Results) -> str:
    """A plain table: one row per figure, one column per contender, one with the ratio for each rival."""
    rivals = results.names[1:]
    head = ["", *results.names, *(f"{results.names[0]} vs {name}" for name in rivals)]
    return grid(title, [head, *(_row(results, metric, rivals) for metric in results.metrics)])


def grid(title: str, rows: list[list[str]]) -> str:
    """Rows of equally many cells under a title: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    return "\n".join([title, *lines]) + "\n"


def _row(results: Results, metric: Metric, rivals: tuple[str, ...]) -> list[str]:
    medians = [shown(results.find_median(name, metric)) for name in results.names]
    ratios = [results.find_ratio(name, metric) for name in rivals]
    return [metric.label, *medians, *("-" if ratio is None else f"{ratio:.2f}x" for ratio in ratios)]


def _padded(row: list[str], widths: list[int]) -> list[str]:
    label, *figures = row
    return [label.ljust(widths[0]), *(text.rjust(width) for text, width in zip(figures, widths[1:], strict=True))]


def shown(value: float | None) -> str:
    """A figure for people; counts have no decimals."""
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"


def facts(kind: str, config: Any, workload: Workload, *, warmup: int, repeat: int) -> dict[str, Any]:
    """What somebody must know to compare a file with another one."""
    return {
        "bench": kind,
        "model": config.model.name,
        "dtype": config.model.dtype,
        "platform": config.platform.name,
        "platform_options": dict(config.plugin_options.get("platforms", {})),
        "workload": {
            "num_prompts": workload.num_prompts,
            "input_len": workload.input_len,
            "output_len": workload.output_len,
            "seed": workload.seed,
        },
        "warmup": warmup,
        "repeat": repeat,
        **surroundings(),
    }


def surroundings() -> dict[str, Any]:
    """The machine and the versions that made a file."""
    return {
        "machine": {"cpus": os.cpu_count(), "system": platform.platform(), "python": platform.python_version()},
        "versions": {name: version for name in _LIBRARIES if (version := _find_version(name))},
    }


def _find_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def check_writable(path: str | None) -> None:
    """Raise ConfigError when the file cannot be written: better now than after minutes of measuring."""
    if path is not None and not Path(path).expanduser().absolute().parent.is_dir():
        raise ConfigError(f"--json {path!r}: its folder does not exist; make it first")


def write_json(path: str, data: dict[str, Any]) -> None:
    """Write a file at once or not at all. Raises ConfigError when it cannot be written."""
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    place = Path(path).expanduser()
    part = place.with_name(f".{place.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(place)
    except OSError as error:
        raise ConfigError(f"{path!r} cannot be written: {error.strerror}") from error
