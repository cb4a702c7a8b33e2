from __future__ import annotations

import math
from itertools import pairwise
from statistics import fmean, pstdev

import pytest

from infer_api.errors import ConfigError
from infer_bench.arrivals import arrival_times, parse_rate


@pytest.mark.parametrize("burstiness", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("rate", [2.0, 50.0])
def test_gaps_have_the_mean_and_the_variation_that_were_asked_for(rate: float, burstiness: float) -> None:
    times = arrival_times(20_000, rate, burstiness, seed=1)
    gaps = [after - before for before, after in pairwise(times)]
    assert times == sorted(times)
    assert fmean(gaps) == pytest.approx(1 / rate, rel=0.05)
    assert pstdev(gaps) / fmean(gaps) == pytest.approx(1 / math.sqrt(burstiness), rel=0.05)


def test_the_first_request_comes_at_once_and_all_of_them_at_an_infinite_rate() -> None:
    assert arrival_times(3, 5.0, 1.0, seed=0)[0] == 0.0
    assert arrival_times(3, math.inf, 1.0, seed=0) == [0.0, 0.0, 0.0]


def test_a_seed_gives_the_same_schedule_again() -> None:
    assert arrival_times(9, 5.0, 1.0, seed=3) == arrival_times(9, 5.0, 1.0, seed=3)
    assert arrival_times(9, 5.0, 1.0, seed=3) != arrival_times(9, 5.0, 1.0, seed=4)


def test_rates_are_numbers_above_zero_or_inf() -> None:
    assert (parse_rate("0.5"), parse_rate("inf")) == (0.5, math.inf)
    for text in ("0", "-1", "nan", "fast", ""):
        with pytest.raises(ConfigError, match="--request-rate"):
            parse_rate(text)
