"""What crosses processes comes back as it was: requests, outputs and steps through msgpack."""

from __future__ import annotations

import msgspec
import pytest

from infer_api.requests import (
    EngineHealth,
    EngineOutput,
    EngineRequest,
    EngineStats,
    RowError,
    SamplingParams,
    TokenLogprobs,
)
from infer_api.steps import (
    AdmittedRow,
    BlockGrant,
    PlannedRow,
    PromptScores,
    SampledRow,
    SampleInputs,
    StepPlan,
    StepResult,
)

SAMPLING = SamplingParams(
    temperature=0.7,
    top_k=40,
    logit_bias={5: -1.5, 70000: 2.0},
    stop=("\n\n", "é"),
    stop_token_ids=(3,),
    seed=2**63 - 1,
    n=2,
    logprobs=0,
    max_tokens=9,
)
LOGPROBS = TokenLogprobs(7, -0.25, [7, 9], [-0.25, -1.5])
MESSAGES = [
    SamplingParams(),
    SAMPLING,
    EngineRequest(
        request_id="r",
        prompt_ids=[1, 2],
        sampling=SAMPLING,
        eos_ids=(2, 4),
        vocab_size=100,
        cache_salt="s",
        media=((0, 2, "sha"),),
    ),
    EngineOutput(request_id="r", token_ids=[7], logprobs=[LOGPROBS]),
    EngineOutput(request_id="r", finish_reason="error", error=RowError("NaN in the scores")),
    EngineHealth(ready=False, reason="loading"),
    EngineStats(
        num_running=1,
        num_waiting=2,
        num_blocks=3,
        num_free_blocks=4,
        num_cached_blocks=2,
        block_tokens=16,
        capacity_tokens=48,
        num_steps=5,
        num_preemptions=0,
        prompt_tokens=6,
        generated_tokens=7,
        cached_tokens=16,
        started_s=1.5,
        num_failed_rows=1,
    ),
    StepPlan(
        step_id=3,
        rows=[PlannedRow(0, 1, 18, True), PlannedRow(2, 5, 9, False, 4)],
        admitted=[AdmittedRow(2, [1, 2, 3], 3, 0, SAMPLING, 100, (4,))],
        granted=[BlockGrant(2, 0, 0, [11, 12])],
    ),
    SampleInputs(step_id=3),
    StepResult(
        step_id=3,
        rows=[SampledRow(0, [7], [LOGPROBS]), SampledRow(2, [], None, RowError("NaN"))],
        prompts=[PromptScores(0, 1, [LOGPROBS]), PromptScores(2, 4, [], RowError("NaN"))],
    ),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_survives_msgpack(message: msgspec.Struct) -> None:
    packed = msgspec.msgpack.encode(message)
    assert msgspec.msgpack.decode(packed, type=type(message)) == message


def test_every_message_type_is_tried() -> None:
    import infer_api.requests
    import infer_api.steps

    structs = {
        value
        for module in (infer_api.requests, infer_api.steps)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and value is not msgspec.Struct
    }
    inside = {TokenLogprobs, AdmittedRow, BlockGrant, PlannedRow, SampledRow, RowError, PromptScores}
    assert {type(message) for message in MESSAGES} | inside == structs


def test_defaults_cost_nothing_on_the_wire() -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(SamplingParams())) == {}


def test_an_unknown_finish_reason_is_refused() -> None:
    packed = msgspec.msgpack.encode({"request_id": "r", "finish_reason": "bored"})
    with pytest.raises(msgspec.ValidationError, match="bored"):
        msgspec.msgpack.decode(packed, type=EngineOutput)


def test_messages_are_frozen() -> None:
    with pytest.raises(AttributeError):
        SAMPLING.top_k = 1  # type: ignore[misc]


def test_defaults_are_not_shared_between_messages() -> None:
    one = StepPlan(step_id=1, rows=[])
    one.admitted.append(AdmittedRow(0, [1], 1, 0, SamplingParams(), 10))
    assert StepPlan(step_id=2, rows=[]).admitted == []


def test_a_plan_counts_its_tokens() -> None:
    assert StepPlan(step_id=1, rows=[PlannedRow(0, 1, 4, True), PlannedRow(1, 6, 6, False)]).num_tokens == 7
