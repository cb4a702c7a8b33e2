from __future__ import annotations

import importlib.util
import struct
from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError
from infer_bench.plots import PLOTS, check_plots, draw


def row(series: str, bound: int, speed: float, gap_ms: float | None) -> dict[str, Any]:
    figures = {"output_throughput": speed, "median_ttft_ms": 10.0 * bound, "p99_itl_ms": gap_ms}
    return {"series": series, "request_rate": "inf", "max_concurrency": bound, **figures}


@pytest.mark.parametrize("series", ["", "max-num-seqs=8"])
def test_plots_are_png_files_of_some_size(tmp_path: Path, series: str) -> None:
    pytest.importorskip("matplotlib")
    rows = [row(series, 1, 10.0, 5.0), row(series, 2, 18.0, None), row("other", 1, 9.0, 7.0)]
    names = draw(rows, tmp_path)
    assert names == list(PLOTS)
    for name in names:
        data = (tmp_path / name).read_bytes()
        assert data.startswith(b"\x89PNG\r\n\x1a\n")
        assert struct.unpack(">II", data[16:24]) == (960, 600)


def test_a_missing_library_is_known_before_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'infer-bench\[plot\]'"):
        check_plots()
