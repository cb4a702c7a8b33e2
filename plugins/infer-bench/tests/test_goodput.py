from __future__ import annotations

import pytest

from infer_api.errors import ConfigError
from infer_bench.goodput import num_good, parse_limits
from infer_bench.records import RequestRecord


def record(ttft_s: float, e2el_s: float, tokens: int = 11, error: str = "") -> RequestRecord:
    return RequestRecord(0, 0.0, ttft_s=ttft_s, e2el_s=e2el_s, output_tokens=tokens, error=error)


def test_limits_are_read_from_one_word_or_several() -> None:
    limits = {"ttft": 200.0, "tpot": 50.0, "e2el": 5000.0}
    assert parse_limits(["ttft:200 tpot:50 e2el:5000"]) == limits
    assert parse_limits(["ttft:200", "tpot:50", "e2el:5000"]) == limits
    assert parse_limits([]) == {}


@pytest.mark.parametrize("word", ["ttft", "ttft:", "ttft:fast", "ttft:0", "itl:5", "ttft=5"])
def test_what_is_no_limit_is_refused(word: str) -> None:
    with pytest.raises(ConfigError, match="--goodput"):
        parse_limits([word])


def test_a_good_request_succeeds_and_keeps_every_limit() -> None:
    records = [
        record(0.1, 1.1),  # 100 ms per token
        record(0.3, 1.1),  # too late
        record(0.1, 3.1),  # too slow
        record(0.1, 1.1, error="cut short"),
        record(0.2, 0.2, tokens=1),  # no time per token
    ]
    assert num_good(records, {"ttft": 200.0, "tpot": 150.0}) == 2
    assert num_good(records, {"ttft": 200.0}) == 3
    assert num_good(records, {"e2el": 1000.0}) == 1
