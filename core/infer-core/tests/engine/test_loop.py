from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import pytest

from infer.engine.loop import Abort, Add, Answer, AskStats, Control, EngineLoop, Refused, Stop, control_values
from infer.engine.start import load_engine
from infer_api.requests import EngineOutput, EngineRequest, EngineStats, SamplingParams
from infer_testkit.executor import scripted_spec


class Heard:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.token_ids: dict[str, list[int]] = {}
        self.refusals: list[Refused] = []
        self.answers: list[Answer] = []

    def outputs(self, outputs: Sequence[EngineOutput]) -> None:
        for output in outputs:
            self.token_ids.setdefault(output.request_id, []).extend(output.token_ids)

    def refused(self, refused: Refused) -> None:
        self.refusals.append(refused)

    def answer(self, answer: Answer) -> None:
        self.answers.append(answer)


def make_loop(**limits: Any) -> tuple[EngineLoop, Heard, Any]:
    engine, _, executor = load_engine(dataclasses.replace(scripted_spec(), **limits))
    heard = Heard()
    return EngineLoop(engine, executor, heard), heard, engine


def make_request(name: str, priority: int = 0) -> EngineRequest:
    return EngineRequest(
        request_id=name, prompt_ids=[1, 2], sampling=SamplingParams(max_tokens=4), vocab_size=97, priority=priority
    )


def run(loop: EngineLoop, heard: Heard, engine: Any, *commands: Any) -> None:
    """Carry out the commands, step until idle, stop."""
    for command in commands:
        loop.commands.put(command)
    step = engine.step

    def step_and_stop() -> list[EngineOutput]:
        outputs: list[EngineOutput] = step()
        if not engine.has_work:
            loop.commands.put(Stop())
        return outputs

    engine.step = step_and_stop
    loop.run()


def test_a_request_that_breaks_the_policy_is_refused_alone(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    loop, heard, engine = make_loop()
    rank = engine.scheduler._policy.rank

    def fussy(view: Any) -> tuple[float, ...]:
        if view.priority == 13:
            raise ZeroDivisionError("thirteen")
        result: tuple[float, ...] = rank(view)
        return result

    monkeypatch.setattr(engine.scheduler._policy, "rank", fussy)
    run(loop, heard, engine, Add(make_request("a")), Add(make_request("odd", 13)), Add(make_request("b")))
    assert [(each.request_id, each.status, each.code) for each in heard.refusals] == [("odd", 500, "internal_error")]
    assert "ZeroDivisionError: thirteen" in heard.refusals[0].message
    assert {name: len(ids) for name, ids in heard.token_ids.items()} == {"a": 4, "b": 4}
    assert engine.scheduler.is_idle_clean
    assert "request odd cannot be taken in" in caplog.text


def test_a_refusal_says_when_to_come_back() -> None:
    loop, heard, engine = make_loop(max_num_seqs=1, max_waiting=1)
    run(loop, heard, engine, *(Add(make_request(f"r{i}")) for i in range(3)))
    assert [each.request_id for each in heard.refusals] == ["r2"]
    error = heard.refusals[0].to_error()
    assert (error.status, error.code) == (503, "queue_full")
    assert error.retry_after_s is not None
    assert error.retry_after_s > 0


def test_a_control_call_that_raises_is_answered_with_its_error_and_others_go_on() -> None:
    loop, heard, engine = make_loop()
    controls = [Control(7, "set_vocabulary", [[]]), Control(8, "set_vocabulary", [["x"]]), AskStats(9)]
    run(loop, heard, engine, *controls, Add(make_request("a")))
    failed, done, stats = heard.answers
    assert failed.failure is not None
    assert (failed.ticket, failed.failure.kind) == (7, "ValueError")
    assert (done.ticket, done.value, done.failure) == (8, 0, None)
    assert isinstance(stats.value, EngineStats)
    assert len(heard.token_ids["a"]) == 4


def test_an_abort_that_comes_before_its_request_is_ignored() -> None:
    loop, heard, engine = make_loop()
    run(loop, heard, engine, Abort(["late"]), Add(make_request("a")))
    assert list(heard.token_ids) == ["a"]
    assert engine.scheduler.is_idle_clean


def test_work_is_odd_during_a_step_and_even_after_it() -> None:
    loop, heard, engine = make_loop()
    seen: list[int] = []
    step = engine.step

    def looking() -> Any:
        seen.append(loop.work)
        return step()

    engine.step = looking
    run(loop, heard, engine, Add(make_request("a")))
    assert all(serial % 2 == 1 for serial in seen)
    assert len(set(seen)) == len(seen) >= 4
    assert loop.work % 2 == 0


@pytest.mark.parametrize(
    ("name", "args", "said"),
    [("reboot", {}, "'reboot'"), ("set_vocabulary", {"words": []}, "takes tokens"), ("set_vocabulary", {}, "nothing")],
)
def test_control_calls_that_no_worker_knows_are_refused(name: str, args: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        control_values(name, args)
