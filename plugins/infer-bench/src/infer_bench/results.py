"""Samples, their medians, and how many times as good infer is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

__all__ = ["Metric", "Results", "percentile"]


@dataclass(frozen=True)
class Metric:
    """One figure: its key in files, its label in tables, and which direction is better, if either is."""

    key: str
    label: str
    is_better: Literal["higher", "lower"] | None


class Results:
    """Figures of every counted run, by contender in the order of `names`; the first one is infer."""

    def __init__(self, metrics: Sequence[Metric], names: Sequence[str]) -> None:
        self.metrics = tuple(metrics)
        self.names = tuple(names)
        self._samples: dict[str, list[Mapping[str, float]]] = {name: [] for name in names}

    def add(self, name: str, figures: Mapping[str, float]) -> None:
        """Add one run of contender `name`. A figure that a run does not have is missing in it."""
        self._samples[name].append(figures)

    def find_median(self, name: str, metric: Metric) -> float | None:
        """The median over the runs, None when none has the figure."""
        values = [figures[metric.key] for figures in self._samples[name] if metric.key in figures]
        return median(values) if values else None

    def find_ratio(self, name: str, metric: Metric) -> float | None:
        """How many times as good the first contender is as `name`: above 1 it wins, also where less is better."""
        ours, theirs = self.find_median(self.names[0], metric), self.find_median(name, metric)
        if not ours or not theirs or metric.is_better is None:
            return None
        return ours / theirs if metric.is_better == "higher" else theirs / ours

    def to_dict(self) -> dict[str, Any]:
        """Plain data: runs, medians and ratios."""
        return {
            "contenders": {
                name: {
                    "median": {metric.key: self.find_median(name, metric) for metric in self.metrics},
                    "runs": [dict(figures) for figures in self._samples[name]],
                }
                for name in self.names
            },
            "ratios": {
                name: {metric.key: self.find_ratio(name, metric) for metric in self.metrics} for name in self.names[1:]
            },
        }


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which `share` percent of `values` lie, with linear interpolation between neighbours."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * share / 100
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
