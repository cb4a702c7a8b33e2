"""Throughput against latency, one line for each server of a sweep."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from infer_api.errors import ConfigError

__all__ = ["PLOTS", "check_plots", "draw"]

PLOTS = {
    "throughput-ttft.png": ("median_ttft_ms", "median time to first token, ms"),
    "throughput-itl.png": ("p99_itl_ms", "99th percentile of gaps between tokens, ms"),
}


def check_plots() -> None:
    """Raise ConfigError when nothing can be drawn: better now than after hours of measuring."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError("plots need matplotlib: pip install 'infer-bench[plot]', or add --no-plots")


def draw(rows: Sequence[Mapping[str, Any]], folder: Path) -> list[str]:
    """Write a PNG for each entry of PLOTS into `folder`; returns their names.

    `rows` are points: `series`, `request_rate`, `max_concurrency` and figures, those of one series together.
    """
    for name, (key, label) in PLOTS.items():
        _draw(rows, key, label, folder / name)
    return list(PLOTS)


def _draw(rows: Sequence[Mapping[str, Any]], key: str, label: str, file: Path) -> None:
    # A figure with a canvas of its own: pyplot would keep figures in the process, and choose a backend by its display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for series, of_series in groupby(rows, key=lambda row: row["series"]):
        points = [row for row in of_series if row[key] is not None]
        places = [(row["output_throughput"], row[key]) for row in points]
        axes.plot([x for x, _ in places], [y for _, y in places], marker="o", label=series or None)
        for row, place in zip(points, places, strict=True):
            axes.annotate(_load(row), place, textcoords="offset points", xytext=(5, 5), fontsize=8)
    axes.set_xlabel("output tokens per second")
    axes.set_ylabel(label)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if any(row["series"] for row in rows):
        axes.legend()
    figure.savefig(file, format="png", dpi=120)


def _load(row: Mapping[str, Any]) -> str:
    bound = row["max_concurrency"]
    return f"{row['request_rate']}/s" if bound is None else str(bound)
