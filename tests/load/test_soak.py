"""The soak in short: the same clients and checks for some seconds, and the whole of it where slow tests run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gauges import Metrics
from soak import Soak, SoakPlan, busy_gauges, soak_own_server, unbalanced_counters
from traffic import Answer, ask_kinds
from wire import Address

INFER = Path(sys.executable).with_name("infer")


@pytest.mark.parametrize("engine", ["inline", "separate"])
def test_forty_clients_of_whom_half_leave_lose_nothing_and_leave_nothing(engine: str, tmp_path: Path) -> None:
    """Memory is not looked at: it is still rising to its level in so short a time."""
    plan = SoakPlan(seconds=5, clients=40, rounds=1, num_kinds=40)
    soak = soak_own_server(plan, "tiny", tmp_path, flags=["--engine-process", engine], infer=INFER)
    assert soak.problems == []
    assert soak.counts["equal to the solo run"] > 10
    assert sum(count for name, count in soak.counts.items() if name.startswith("left")) > 10


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", ["inline", "separate"])
def test_three_hundred_clients_for_ten_minutes(engine: str, tmp_path: Path) -> None:
    plan = SoakPlan(seconds=600, clients=300, rounds=3, warm_up_s=30)
    soak = soak_own_server(plan, "tiny", tmp_path, flags=["--engine-process", engine], infer=INFER)
    assert soak.problems == []


def test_the_kinds_of_requests_are_the_same_in_every_run() -> None:
    assert ask_kinds(50, seed=3) == ask_kinds(50, seed=3)
    assert ask_kinds(50, seed=3) != ask_kinds(50, seed=4)


def test_memory_that_grows_is_a_problem() -> None:
    soak = Soak(Address("127.0.0.1", 1), SoakPlan(1, 1, 3), resident=[100.0, 101.0, 104.0])
    soak._check_memory()
    assert "grew by more than 3%" in soak.problems[0]


async def test_an_answer_unlike_the_solo_run_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    soak = Soak(Address("127.0.0.1", 1), SoakPlan(1, 1, 1, num_kinds=2))
    right, wrong = Answer(((0, "right", "stop"),)), Answer(((0, "wrong", "stop"),))
    soak.answers[soak.kinds[0].name].update({right: 5, wrong: 1})

    async def alone(kind: object) -> Answer:
        return right

    monkeypatch.setattr(soak, "_alone", alone)
    await soak._check_answers()
    assert len(soak.problems) == 1
    assert "1 answers differ" in soak.problems[0]
    assert soak.counts["equal to the solo run"] == 5


QUIET = """# HELP infer_requests_open Sequences.
infer_requests_open 0.0
infer_requests_running 0.0
infer_requests_waiting 0.0
infer_kv_blocks{state="live"} 0.0
infer_kv_blocks{state="cached"} 7.0
infer_requests_received_total 5.0
infer_requests_finished_total{outcome="stop"} 3.0
infer_requests_finished_total{outcome="abort"} 2.0
"""


@pytest.mark.parametrize(
    ("line", "wrong", "word"),
    [
        ("infer_requests_running 0.0", "infer_requests_running 1.0", "infer_requests_running"),
        ('infer_kv_blocks{state="live"} 0.0', 'infer_kv_blocks{state="live"} 2.0', "live"),
        ('outcome="stop"} 3.0', 'outcome="stop"} 4.0', "5 requests were received"),
    ],
)
def test_metrics_of_an_idle_server_are_judged(line: str, wrong: str, word: str) -> None:
    def problems(text: str) -> str:
        metrics = Metrics(text)
        return f"{busy_gauges(metrics) or ''}{unbalanced_counters(metrics) or ''}"

    assert problems(QUIET) == ""
    assert word in problems(QUIET.replace(line, wrong))


def test_a_metric_that_is_not_there_is_not_zero() -> None:
    with pytest.raises(KeyError, match="no 'infer_requests_open'"):
        busy_gauges(Metrics(""))
