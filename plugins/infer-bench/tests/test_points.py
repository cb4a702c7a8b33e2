from __future__ import annotations

import pytest

from infer_api.errors import ConfigError
from infer_bench.options import BenchOptions
from infer_bench.points import Point, all_points, parse_vary


def test_values_that_follow_a_flag_belong_to_it() -> None:
    words = ["max-num-seqs=8", "64", "--dtype=float32"]
    assert parse_vary(words) == [[("max-num-seqs", "8"), ("max-num-seqs", "64")], [("dtype", "float32")]]
    assert parse_vary(["max-num-seqs=8,64"]) == [[("max-num-seqs", "8"), ("max-num-seqs", "64")]]


@pytest.mark.parametrize("words", [["8"], ["a="], ["=8"], ["a=1", "a=2"], ["a=1", ""]])
def test_what_is_no_flag_with_values_is_refused(words: list[str]) -> None:
    with pytest.raises(ConfigError, match="--vary"):
        parse_vary(words)


def test_the_grid_has_every_server_with_every_load() -> None:
    points = all_points(BenchOptions(request_rates=("1", "inf"), vary=("a=1", "2", "b=x")))
    assert [point.file_name for point in points] == [
        "a=1.b=x.rate=1.json",
        "a=1.b=x.rate=inf.json",
        "a=2.b=x.rate=1.json",
        "a=2.b=x.rate=inf.json",
    ]
    assert points[2].server_flags == ("--a=2", "--b=x")
    assert points[2].series == "a=2, b=x"
    assert all_points(BenchOptions(concurrencies=(4,))) == [Point((), max_concurrency=4)]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"request_rates": ("1",), "concurrencies": (1,)},
        {"request_rates": ("0",)},
        {"concurrencies": (0,)},
        {"request_rates": ("1", "1")},
        {"request_rates": ("1",), "vary": ("a=x/y", "x_y")},
    ],
)
def test_a_grid_that_cannot_be_is_refused(fields: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(ConfigError):
        all_points(BenchOptions(**fields))
