"""The engine over a scripted executor that checks every KV read: no model, all of the bookkeeping."""

from __future__ import annotations

import random

import msgspec
import pytest

from infer.engine.core import Engine, EngineRules
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.errors import RequestError
from infer_api.requests import EngineOutput, EngineRequest, RowError, SamplingParams
from infer_api.specs import KVSpec, KVTensor, Retain
from infer_api.steps import PlannedRow, PromptScores, SampledRow
from infer_testkit.executor import ScriptedExecutor, next_token
from infer_testkit.fakes.policies import InTurn

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
    max_waiting: int = 4096,
    prefix_caching: bool = True,
) -> tuple[Engine, ScriptedExecutor]:
    specs = {"a": FULL, "b": WINDOW} if windows else {"a": FULL}
    geometry = KVGeometry(form_groups(specs, 4), num_blocks, 4, min(budget, max_len))
    executor = ScriptedExecutor(geometry, VOCAB)
    rules = EngineRules(in_flight, max_waiting, prefix_caching)
    return Engine(executor, geometry, SchedulerLimits(seqs, budget, max_len), InTurn(), rules), executor


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
    assert outputs["bad"][-1].error == RowError("NaN")
    assert tokens_of(outputs["good"]) == expected(good)
    assert engine.scheduler.is_idle_clean


def test_a_prompt_longer_than_the_limit_is_refused_with_both_numbers() -> None:
    engine, _ = make_engine(max_len=32)
    with pytest.raises(RequestError, match=r"has 32 tokens.*at most 31 fit"):
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
    engine = Engine(
        ScriptedExecutor(geometry, VOCAB), geometry, SchedulerLimits(4, budget, 64), InTurn(), EngineRules(in_flight)
    )
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
    assert max(preemptions) <= preemptions[0] + 1


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
    engine = Engine(executor, geometry, limits, InTurn(), EngineRules(rng.randint(1, 4)))
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


def answers(engine: Engine, requests: list[EngineRequest]) -> dict[str, list[EngineOutput]]:
    for request in requests:
        engine.add(request)
    return run(engine)


def alike(name: str, prompt: list[int], max_tokens: int = 4, **fields: object) -> EngineRequest:
    sampling = SamplingParams(max_tokens=max_tokens)
    return EngineRequest(request_id=name, prompt_ids=prompt, sampling=sampling, vocab_size=VOCAB, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("windows", [False, True])
def test_a_prompt_that_was_seen_before_is_not_computed_again(windows: bool) -> None:
    engine, executor = make_engine(windows=windows, budget=64)
    prompt = [*range(30)]
    first = answers(engine, [alike("a", prompt)])["a"]
    second = answers(engine, [alike("b", prompt)])["b"]
    assert tokens_of(second) == tokens_of(first)
    assert (first[0].num_cached_tokens, second[0].num_cached_tokens) == (0, 28)
    assert executor.plans[-4].rows[0].num_tokens == 2, (
        "the last token is always computed: the next one is drawn from it"
    )
    assert engine.stats().cached_tokens == 28


def test_an_answer_is_found_again_as_part_of_the_next_prompt() -> None:
    engine, _ = make_engine(windows=False)
    prompt = [*range(9)]
    answer = tokens_of(answers(engine, [alike("turn1", prompt, 12)])["turn1"])
    output = answers(engine, [alike("turn2", [*prompt, *answer, 5, 6])])["turn2"]
    assert output[0].num_cached_tokens == 20, "all complete blocks of prompt and answer but the last token's"


@pytest.mark.parametrize("other", [{"cache_salt": "y"}, {"adapter": "a@1"}, {"media": ((3, 2, "sha"),)}])
def test_salts_adapters_and_media_keep_prompts_apart(other: dict[str, object]) -> None:
    engine, _ = make_engine(windows=False)
    prompt = [*range(20)]
    assert answers(engine, [alike("a", prompt, cache_salt="x")])["a"][0].num_cached_tokens == 0
    assert answers(engine, [alike("b", prompt, **{"cache_salt": "x", **other})])["b"][0].num_cached_tokens == 0
    assert answers(engine, [alike("c", prompt, cache_salt="x")])["c"][0].num_cached_tokens == 16


def test_choices_of_one_prompt_share_its_blocks() -> None:
    engine, executor = make_engine(windows=False, budget=64)
    outputs = answers(engine, [alike(f"choice{i}", [*range(33)]) for i in range(4)])
    assert [outputs[f"choice{i}"][0].num_cached_tokens for i in range(4)] == [0, 32, 32, 32]
    computed = sum(row.num_tokens for plan in executor.plans for row in plan.rows)
    assert computed == 33 + 3 * 1 + 4 * 3, "one prompt, a token each of the three others, three decodes each"


def test_prompts_that_begin_alike_wait_for_the_one_that_computes_the_beginning() -> None:
    engine, executor = make_engine(windows=False, budget=64)
    shared = [*range(40)]
    outputs = answers(engine, [alike(str(i), [*shared, 50 + i, 60 + i]) for i in range(5)])
    assert [outputs[str(i)][0].num_cached_tokens for i in range(5)] == [0, 40, 40, 40, 40]
    assert len(executor.plans[0].rows) == 1


def test_whoever_waits_for_a_prefix_gets_on_when_its_computer_leaves() -> None:
    engine, _ = make_engine(windows=False, budget=8)
    engine.add(alike("leaves", [*range(40)]))
    engine.add(alike("stays", [*range(40)]))
    engine.step()
    assert engine.stats().num_waiting == 1
    engine.abort(["leaves"])
    outputs = run(engine)
    assert tokens_of(outputs["stays"]) == expected(alike("stays", [*range(40)]))
    assert engine.scheduler.is_idle_clean


def test_without_prefix_caching_nothing_is_found() -> None:
    engine, _ = make_engine(windows=False, prefix_caching=False)
    for name in "ab":
        assert answers(engine, [alike(name, [*range(30)])])[name][0].num_cached_tokens == 0
    assert engine.stats().num_cached_blocks == 0


def test_a_reset_forgets_all_prefixes_also_those_that_running_rows_still_write() -> None:
    engine, _ = make_engine(windows=False)
    answers(engine, [alike("a", [*range(30)])])
    assert engine.stats().num_cached_blocks > 0
    assert engine.reset_cache()
    assert engine.stats().num_cached_blocks == 0
    engine.add(alike("b", [*range(30)], 10))
    engine.step()
    assert not engine.reset_cache()
    run(engine)
    assert answers(engine, [alike("c", [*range(30)])])["c"][0].num_cached_tokens == 0


def test_what_a_failed_row_computed_is_not_found_by_others() -> None:
    engine, executor = make_engine(windows=False)
    executor.before_sample = lambda slot, tokens: "NaN" if len(tokens) == 33 else None
    bad = answers(engine, [alike("bad", [*range(30)], 10)])["bad"]
    assert bad[-1].finish_reason == "error"
    assert engine.stats().num_cached_blocks == 0
    executor.before_sample = lambda slot, tokens: None
    good = answers(engine, [alike("good", [*range(30)])])["good"]
    assert good[0].num_cached_tokens == 0
    assert engine.stats().num_failed_rows == 1


def test_the_kv_of_a_prompt_whose_scores_failed_is_not_found_by_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(windows=False)

    def fail(self: ScriptedExecutor, planned: PlannedRow) -> PromptScores:
        return PromptScores(planned.slot, 1, [], RowError("NaN"))

    monkeypatch.setattr(ScriptedExecutor, "_score", fail)
    bad = answers(engine, [make_request("bad", 30, 0, prompt_logprobs=0)])["bad"]
    assert bad[-1].error == RowError("NaN")
    assert engine.stats().num_cached_blocks == 0


def test_a_request_that_fails_by_its_own_fault_leaves_its_prefix_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, _ = make_engine(windows=False)
    error = RowError("no token is left", "no_allowed_token", 400)
    with monkeypatch.context() as patch:
        patch.setattr(ScriptedExecutor, "_sample", lambda self, slot: SampledRow(slot, [], None, error))
        assert answers(engine, [alike("bad", [*range(30)])])["bad"][-1].error == error
    assert answers(engine, [alike("good", [*range(30)])])["good"][0].num_cached_tokens == 28


def test_a_queue_that_is_full_refuses_and_says_when_to_come_back() -> None:
    engine, _ = make_engine(seqs=2, max_waiting=3)
    for number in range(5):  # two of them find a slot at once
        engine.add(alike(str(number), [1, 2, 3 + number]))
    with pytest.raises(RequestError, match="--max-waiting") as refused:
        engine.add(alike("late", [1, 2]))
    assert (refused.value.status, refused.value.code) == (503, "queue_full")
    assert refused.value.retry_after_s is not None
    assert refused.value.retry_after_s >= 1
    assert len(run(engine)) == 5
    engine.add(alike("late", [1, 2]))
    assert tokens_of(run(engine)["late"]) == expected(alike("late", [1, 2]))


def test_a_prompt_that_is_only_scored_ends_without_a_token() -> None:
    engine, executor = make_engine(budget=16)
    request = make_request("score", 40, max_tokens=0)
    engine.add(request)
    engine.add(make_request("beside", 5))
    outputs = run(engine)
    assert [output.finish_reason for output in outputs["score"]] == ["length"]
    assert tokens_of(outputs["score"]) == []
    assert engine.scheduler.is_idle_clean


def test_the_first_output_tells_how_long_a_request_waited_and_no_other() -> None:
    engine, _ = make_engine()
    outputs = answers(engine, [make_request("r", 20)])["r"]
    assert outputs[0].queued_s is not None
    assert 0 <= outputs[0].queued_s < 5
    assert [output.queued_s for output in outputs[1:]] == [None] * (len(outputs) - 1)


def scores_of(outputs: list[EngineOutput]) -> list[float | None]:
    entries = [entry for output in outputs for entry in output.prompt_logprobs or []]
    return [entry.logprob if entry is not None else None for entry in entries]


@pytest.mark.parametrize("in_flight", [1, 2])
@pytest.mark.parametrize(("length", "max_tokens"), [(1, 0), (1, 3), (2, 0), (33, 0), (33, 5)])
def test_every_token_of_a_prompt_is_scored_once(in_flight: int, length: int, max_tokens: int) -> None:
    engine, _ = make_engine(budget=8, in_flight=in_flight)
    for name in "ab":  # the second one finds the prompt in the cache, and is scored all the same
        request = make_request("r", length, max_tokens=max_tokens, prompt_logprobs=0)
        engine.add(msgspec.structs.replace(request, request_id=name))
        outputs = run(engine)[name]
        assert scores_of(outputs) == [None, *(-float(at) for at in range(1, length))]
        assert len(tokens_of(outputs)) == max_tokens
        assert outputs[-1].finish_reason == "length"


def test_scores_are_told_once_also_when_the_row_was_preempted() -> None:
    engine, _ = make_engine(num_blocks=17, windows=False, budget=8)
    engine.add(make_request("first", 8, max_tokens=50))
    engine.add(make_request("scored", 30, max_tokens=20, prompt_logprobs=0))
    outputs = run(engine)
    assert engine.stats().num_preemptions > 0
    assert scores_of(outputs["scored"]) == [None, *(-float(at) for at in range(1, 30))]
