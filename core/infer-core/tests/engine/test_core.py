"""The engine over a scripted executor that checks every KV read: no model, all of the bookkeeping."""

from __future__ import annotations

import random

import msgspec
import pytest

from infer.engine.core import Engine
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.errors import RequestError
from infer_api.requests import EngineOutput, EngineRequest, SamplingParams
from infer_api.specs import KVSpec, KVTensor, Retain
from infer_testkit.executor import ScriptedExecutor, next_token

VOCAB = 97
TENSORS = (KVTensor("k", 1, 8),)
FULL, WINDOW = KVSpec(TENSORS), KVSpec(TENSORS, retain=Retain(window=9))


def make_engine(
    *,
    num_blocks: int = 200,
    seqs: int = 8,
    budget: int = 16,
    in_flight: int = 1,
    max_len: int = 64,
    windows: bool = True,
) -> tuple[Engine, ScriptedExecutor]:
    specs = {"a": FULL, "b": WINDOW} if windows else {"a": FULL}
    geometry = KVGeometry(form_groups(specs, 4), num_blocks, 4, min(budget, max_len))
    executor = ScriptedExecutor(geometry, VOCAB)
    return Engine(executor, geometry, SchedulerLimits(seqs, budget, max_len), in_flight=in_flight), executor


def make_request(name: str, length: int, max_tokens: int = 10, **fields: object) -> EngineRequest:
    rng = random.Random(name)
    sampling = SamplingParams(max_tokens=max_tokens, **fields)  # type: ignore[arg-type]
    return EngineRequest(
        request_id=name, prompt_ids=[rng.randrange(VOCAB) for _ in range(length)], sampling=sampling, vocab_size=VOCAB
    )


def expected(request: EngineRequest, max_len: int = 64) -> list[int]:
    tokens = list(request.prompt_ids)
    limit = min(request.sampling.max_tokens or max_len, max_len - len(tokens))
    for _ in range(limit):
        tokens.append(next_token(tokens, VOCAB))
        if tokens[-1] in request.eos_ids or tokens[-1] in request.sampling.stop_token_ids:
            break
    return tokens[len(request.prompt_ids) :]


def run(engine: Engine, outputs: dict[str, list[EngineOutput]] | None = None) -> dict[str, list[EngineOutput]]:
    outputs = {} if outputs is None else outputs
    for _ in range(10_000):
        if not engine.has_work:
            return outputs
        for output in engine.step():
            outputs.setdefault(output.request_id, []).append(output)
    raise AssertionError("the engine does not come to an end")


def tokens_of(outputs: list[EngineOutput]) -> list[int]:
    return [token for output in outputs for token in output.token_ids]


@pytest.mark.parametrize("in_flight", [1, 2, 3])
@pytest.mark.parametrize("budget", [3, 16, 200])
@pytest.mark.parametrize("num_blocks", [40, 200])
def test_every_request_gets_its_own_tokens_whatever_the_budget_the_pool_and_the_depth(
    in_flight: int, budget: int, num_blocks: int
) -> None:
    engine, _ = make_engine(num_blocks=num_blocks, seqs=3 if budget == 3 else 8, budget=budget, in_flight=in_flight)
    requests = [make_request(f"r{i}", length=1 + (i * 7) % 40, max_tokens=1 + (i * 5) % 23) for i in range(20)]
    for request in requests:
        engine.add(request)
    outputs = run(engine)
    for request in requests:
        assert tokens_of(outputs[request.request_id]) == expected(request)
        assert [output.finish_reason for output in outputs[request.request_id]][-1] == "length"
    assert engine.scheduler.is_idle_clean


@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_small_pool_preempts_and_still_gives_the_same_tokens(in_flight: int) -> None:
    engine, _ = make_engine(num_blocks=20, budget=64, in_flight=in_flight, windows=False)
    requests = [make_request(f"r{i}", length=8, max_tokens=40) for i in range(6)]
    for request in requests:
        engine.add(request)
    outputs = run(engine)
    assert engine.stats().num_preemptions > 0
    assert all(tokens_of(outputs[request.request_id]) == expected(request) for request in requests)
    assert engine.scheduler.is_idle_clean


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_aborts_at_random_moments_leave_nothing_behind_and_touch_no_neighbour(in_flight: int, seed: int) -> None:
    rng = random.Random(seed)
    engine, _ = make_engine(num_blocks=30, budget=10, in_flight=in_flight)
    requests = {f"r{i}": make_request(f"r{i}", rng.randrange(1, 30), rng.randrange(1, 20)) for i in range(30)}
    pending, outputs = list(requests.values()), {}
    while pending or engine.has_work:
        if pending and rng.random() < 0.6:
            engine.add(pending.pop())
        if rng.random() < 0.3:
            for output in engine.abort([rng.choice(list(requests))]):
                outputs.setdefault(output.request_id, []).append(output)
        for output in engine.step() if engine.has_work else []:
            outputs.setdefault(output.request_id, []).append(output)
    for name, request in requests.items():
        reasons = [output.finish_reason for output in outputs[name]]
        assert [reason is not None for reason in reasons] == [False] * (len(reasons) - 1) + [True]
        got, want = tokens_of(outputs[name]), expected(request)
        assert got == (want if reasons[-1] == "length" else want[: len(got)])
    assert engine.scheduler.is_idle_clean


def test_a_stop_token_ends_the_sequence_and_is_its_last_token() -> None:
    engine, _ = make_engine(in_flight=2)
    request = make_request("r", length=5, max_tokens=20)
    third = expected(request)[2]
    request = make_request("r", length=5, max_tokens=20, stop_token_ids=(third,))
    engine.add(request)
    outputs = run(engine)["r"]
    assert tokens_of(outputs) == expected(request)
    assert outputs[-1].finish_reason == "stop"
    assert outputs[-1].stop_token_id == third


def test_end_of_sequence_counts_only_when_it_is_not_ignored() -> None:
    plain = make_request("r", length=5, max_tokens=6)
    eos = expected(plain)[1]
    for ignore, reason, count in ((False, "stop", 2), (True, "length", 6)):
        engine, _ = make_engine()
        sampling = SamplingParams(max_tokens=6, ignore_eos=ignore)
        engine.add(EngineRequest(request_id="r", prompt_ids=plain.prompt_ids, sampling=sampling, eos_ids=(eos,)))
        outputs = run(engine)["r"]
        assert (outputs[-1].finish_reason, len(tokens_of(outputs))) == (reason, count)


def test_a_row_that_fails_ends_alone() -> None:
    engine, executor = make_engine()
    good, bad = make_request("good", 6, 12), make_request("bad", 7, 12)
    executor.before_sample = lambda slot, tokens: "NaN" if tokens[:7] == bad.prompt_ids and len(tokens) == 9 else None
    engine.add(good)
    engine.add(bad)
    outputs = run(engine)
    assert outputs["bad"][-1].finish_reason == "error"
    assert outputs["bad"][-1].error == "NaN"
    assert tokens_of(outputs["good"]) == expected(good)
    assert engine.scheduler.is_idle_clean


def test_a_prompt_longer_than_the_limit_is_refused_with_both_numbers() -> None:
    engine, _ = make_engine(max_len=32)
    with pytest.raises(RequestError, match=r"has 32 tokens.*at most 32 fit"):
        engine.add(make_request("r", length=32))
    with pytest.raises(RequestError, match="no tokens"):
        engine.add(make_request("r", length=0))
    assert not engine.has_work


def test_lower_priority_numbers_run_first() -> None:
    engine, _ = make_engine(seqs=1)
    for name, priority in (("a", 0), ("late", 5), ("urgent", -1)):
        request = make_request(name, 4, 3)
        engine.add(
            EngineRequest(request_id=name, prompt_ids=request.prompt_ids, sampling=request.sampling, priority=priority)
        )
    assert list(run(engine)) == ["urgent", "a", "late"]


def test_blocks_outside_a_window_are_given_back_while_the_row_runs() -> None:
    engine, _ = make_engine(num_blocks=60, max_len=64)
    engine.add(make_request("r", length=2, max_tokens=60))
    for _ in range(50):
        engine.step()
    used = engine.stats().num_blocks - engine.stats().num_free_blocks
    full_blocks = -(-51 // 4)
    assert used <= full_blocks + 4


@pytest.mark.parametrize("in_flight", [1, 2, 3])
@pytest.mark.parametrize("budget", [4, 5, 16])
@pytest.mark.parametrize("specs", [{"b": WINDOW}, {"a": FULL, "b": WINDOW}])
def test_a_row_ends_in_the_smallest_pool_that_its_windows_allow(
    specs: dict[str, KVSpec], budget: int, in_flight: int
) -> None:
    groups = form_groups(specs, 4)
    num_blocks = 1 + KVGeometry(groups, 2, 4, budget).blocks_for(64)
    geometry = KVGeometry(groups, num_blocks, 4, budget)
    engine = Engine(ScriptedExecutor(geometry, VOCAB), geometry, SchedulerLimits(4, budget, 64), in_flight=in_flight)
    request = make_request("r", length=50, max_tokens=14)
    engine.add(request)
    assert tokens_of(run(engine)["r"]) == expected(request)
    assert engine.stats().num_preemptions == 0


@pytest.mark.parametrize("num_rows", [2, 3, 4])
def test_steps_in_flight_preempt_no_more_rows_than_one_step_at_a_time(num_rows: int) -> None:
    preemptions = []
    for in_flight in (1, 2, 3):
        engine, _ = make_engine(num_blocks=17, in_flight=in_flight, windows=False)
        requests = [make_request(f"r{i}", length=8, max_tokens=50) for i in range(num_rows)]
        for request in requests:
            engine.add(request)
        outputs = run(engine)
        assert all(tokens_of(outputs[request.request_id]) == expected(request) for request in requests)
        preemptions.append(engine.stats().num_preemptions)
    assert preemptions[0] > 0
    assert preemptions == preemptions[:1] * 3


@pytest.mark.parametrize("seed", range(60))
def test_any_mix_of_pools_windows_priorities_and_depths_comes_to_its_end(seed: int) -> None:
    rng = random.Random(seed)
    windows = [rng.choice([None, 1, 3, 9, 20]) for _ in range(rng.randint(1, 4))]
    specs = {f"layer{i}": KVSpec(TENSORS, retain=Retain(window=window)) for i, window in enumerate(windows)}
    block_tokens, seqs = rng.choice([1, 2, 4, 8]), rng.randint(1, 6)
    budget = max(seqs, rng.choice([seqs, 7, 16, 64]))
    groups = form_groups(specs, block_tokens)
    smallest = 1 + KVGeometry(groups, 2, block_tokens, budget).blocks_for(64)
    geometry = KVGeometry(groups, smallest + rng.choice([0, 1, 3, 10]), block_tokens, budget)
    executor, limits = ScriptedExecutor(geometry, VOCAB), SchedulerLimits(seqs, budget, 64)
    engine = Engine(executor, geometry, limits, in_flight=rng.randint(1, 4))
    requests = [make_request(f"r{i}", rng.randint(1, 63), rng.randint(1, 40)) for i in range(rng.randint(1, 12))]
    outputs: dict[str, list[EngineOutput]] = {}
    for request in requests:
        engine.add(msgspec.structs.replace(request, priority=rng.choice([0, 0, 1, -1])))
        for output in engine.step():
            outputs.setdefault(output.request_id, []).append(output)
    run(engine, outputs)
    assert all(tokens_of(outputs[request.request_id]) == expected(request) for request in requests)
    assert engine.scheduler.is_idle_clean


def test_a_request_that_is_aborted_twice_in_one_call_ends_once() -> None:
    engine, _ = make_engine()
    engine.add(make_request("r", 5))
    assert [output.finish_reason for output in engine.abort(["r", "unknown", "r"])] == ["abort"]
