"""The fuzz in short, and the whole of it where slow tests run."""

from __future__ import annotations

import random
import sys
from pathlib import Path

import pytest

from fuzz import Fuzz, fuzz_own_server
from mutations import GOOD, Shot, mutated
from wire import Address, Head

INFER = Path(sys.executable).with_name("infer")


def test_three_hundred_mutated_requests_do_no_harm(tmp_path: Path) -> None:
    fuzz = fuzz_own_server({"count": 300, "seed": 1}, "tiny", tmp_path, flags=[], infer=INFER)
    assert fuzz.problems == []
    total = fuzz.summary()["statuses"]
    assert total["400"] > 150
    assert total["200"] > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_ten_thousand_mutated_requests_do_no_harm(tmp_path: Path) -> None:
    fuzz = fuzz_own_server({"count": 10_000, "seed": 2}, "tiny", tmp_path, flags=[], infer=INFER)
    assert fuzz.problems == []


def test_shots_follow_from_the_seed_and_are_of_every_kind() -> None:
    shots = [mutated(random.Random(f"1/{number}")) for number in range(2000)]
    assert shots == [mutated(random.Random(f"1/{number}")) for number in range(2000)]
    kinds = {shot.kind.partition(":")[0] for shot in shots}
    assert kinds == {"good", "structure", "bytes", "header", "wire"}
    assert {shot.path for shot in shots} == {path for path, _ in GOOD}
    assert len({shot.body for shot in shots}) > 1000


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"error": {}}'),
        (503, b'{"error": {}}'),
        (200, b'{"x": NaN}'),
        (422, b"no"),
        (200, b'data: {"server_error"'),
    ],
)
def test_what_counts_as_a_violation(status: int, body: bytes) -> None:
    fuzz = Fuzz(Address("127.0.0.1", 1), 1)
    fuzz._judge(0, Shot("good", "/tokenize", b"{}"), Head(status), body)
    assert len(fuzz.problems) == 1


def test_a_word_inside_a_string_is_no_violation() -> None:
    fuzz = Fuzz(Address("127.0.0.1", 1), 1)
    fuzz._judge(0, Shot("good", "/tokenize", b"{}"), Head(200), b'{"text": "NaN \\" Infinity"}')
    assert fuzz.problems == []
