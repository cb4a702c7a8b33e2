from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from infer_api.errors import ConfigError, InferError
from infer_bench.options import BenchOptions
from infer_bench.serve import check_load, measure, targets


def measured(context: Any, options: BenchOptions, repeat: int = 1) -> Any:
    with targets(context, options) as found:
        return measure(options, found, repeat, context.say)


def test_a_load_is_measured(serve_stub: Callable[..., Any], events: Any, context: Any) -> None:
    stub = serve_stub(lambda body: events.answer_of(body, first_s=0.02, gap_s=0.01))
    options = BenchOptions(
        base_url=stub.url, num_prompts=6, input_len=9, output_len=4, request_rate="50", save_detailed=True
    )
    result = measured(context, options)
    (figures,) = result.to_dict()["contenders"]["server"]["runs"]
    assert (figures["completed"], figures["failed"], figures["total_output_tokens"]) == (6, 0, 24)
    assert figures["median_ttft_ms"] == pytest.approx(20, abs=15)
    assert figures["median_tpot_ms"] == pytest.approx(10, abs=8)
    assert result.rounds[0]["output_tokens_from"] == "usage"
    assert len(result.rounds[0]["requests"]["ttft_s"]) == 6
    # One warm-up, six requests; nine tokens are eight words and the one that the stub's tokenizer adds.
    assert [len(body["prompt"].split()) for body in stub.bodies] == [8] * 7
    assert "ignore_eos" not in stub.bodies[0]


def test_two_servers_take_turns_on_the_same_prompts(serve_stub: Callable[..., Any], events: Any, context: Any) -> None:
    fast = serve_stub(lambda body: events.answer_of(body, first_s=0.02))
    slow = serve_stub(lambda body: events.answer_of(body, first_s=0.08))
    options = BenchOptions(
        base_url=fast.url, peer_url=slow.url, num_prompts=3, input_len=5, output_len=2, ignore_eos=True
    )
    result = measured(context, options, repeat=2)
    assert fast.bodies == slow.bodies
    assert {body["ignore_eos"] for body in fast.bodies} == {True}
    assert [told["target"] for told in result.rounds] == ["server", "peer", "peer", "server"]
    assert result.to_dict()["ratios"]["peer"]["median_ttft_ms"] == pytest.approx(4, rel=0.5)


def test_token_ids_are_of_the_vocabulary_that_the_server_tells(serve_stub: Callable[..., Any], context: Any) -> None:
    stub = serve_stub()
    options = BenchOptions(base_url=stub.url, num_prompts=2, input_len=5, output_len=2, prompt_ids=True)
    measured(context, options)
    assert {len(body["prompt"]) for body in stub.bodies} == {5}
    with pytest.raises(ConfigError, match="--vocab-size"):
        measured(context, options.model_copy(update={"served_model": "other"}))


def test_the_key_of_the_configuration_is_sent(serve_stub: Callable[..., Any], context: Any) -> None:
    stub, context.api_keys = serve_stub(), ("secret", "other")
    measured(context, BenchOptions(base_url=stub.url, num_prompts=1, input_len=5, output_len=2))
    assert {headers["authorization"] for headers in stub.headers} == {"Bearer secret"}


def test_a_warm_up_that_fails_ends_it(serve_stub: Callable[..., Any], context: Any) -> None:
    stub = serve_stub(status=400)
    with pytest.raises(InferError, match="warm-up .* HTTP 400"):
        measured(context, BenchOptions(base_url=stub.url, num_prompts=5))
    assert len(stub.bodies) == 1


def test_a_server_without_tokenize_is_told(serve_stub: Callable[..., Any], context: Any) -> None:
    stub = serve_stub(has_tokenize=False)
    measured(context, BenchOptions(base_url=stub.url, num_prompts=1, input_len=5, output_len=2))
    assert "about, not exactly" in context.said[0]


@pytest.mark.parametrize(
    ("fields", "model", "message"),
    [
        ({"goodput": ("itl:5",)}, None, "--goodput"),
        ({"request_rate": "0"}, None, "--request-rate"),
        ({"percentiles": (101.0,)}, None, "--percentiles"),
        ({"base_url": "http://host"}, "smollm2", "--served-model"),
        ({"prompt_ids": True, "endpoint": "/v1/chat/completions"}, None, "--prompt-ids"),
        ({"dataset": "sharegpt"}, None, "--dataset-path"),
        ({"dataset_path": "x.json"}, None, "--dataset-path"),
    ],
)
def test_wrong_settings_are_known_before_anything_starts(
    context: Any, fields: dict[str, Any], model: str | None, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_load(context, {"model": model}, BenchOptions(**fields))


def test_a_server_of_its_own_is_started_and_ended(
    context: Any, fake_infer: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("infer_bench.serve.infer_program", lambda: fake_infer)
    options = BenchOptions(num_prompts=2, input_len=4, output_len=3)
    with targets(context, options, ["--max-num-seqs=8"]) as found:
        result = measure(options, found, 1, context.say)
    (target,) = result.targets
    assert (target.name, target.model) == ("infer", "tiny")
    assert "--max-num-seqs=8" in target.command
    assert result.to_dict()["contenders"]["infer"]["median"]["total_output_tokens"] == 6
    assert result.rounds[0]["output_tokens_from"] == "chunks"
    with pytest.raises(InferError, match="not ready"):
        measure(options.model_copy(update={"ready_timeout": 0.1}), found, 1, context.say)
