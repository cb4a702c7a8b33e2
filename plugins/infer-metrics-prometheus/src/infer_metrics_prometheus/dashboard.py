"""The Grafana dashboard: `python -m infer_metrics_prometheus.dashboard > dashboard.json`."""

from __future__ import annotations

import sys
from importlib.resources import files

__all__ = ["dashboard_json"]


def dashboard_json() -> str:
    """The dashboard as Grafana imports it; it asks for the data source."""
    return files("infer_metrics_prometheus").joinpath("dashboard.json").read_text(encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(dashboard_json())
