from __future__ import annotations

import dataclasses
import time

import pytest

from infer.service.validate import check_sampling
from infer_api.errors import RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Rendered

VOCAB = 300


@pytest.fixture
def check(card, limits):
    small = dataclasses.replace(card, vocab_size=VOCAB)

    def run(prompts=None, **fields) -> SamplingParams:
        prompts = (Rendered((5, 6)),) if prompts is None else prompts
        return check_sampling(SamplingParams(**fields), small, limits, prompts)

    return run


def refused(check, **fields) -> RequestError:
    with pytest.raises(RequestError) as caught:
        check(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("n", 5_000_000, "from 1 to 8"),
        ("n", 0, "from 1 to 8"),
        ("n", True, "whole number"),
        ("logprobs", 1_000_000_000, "from 0 to 5"),
        ("logprobs", -1, "from 0 to 5"),
        ("seed", 2**63, "to 9223372036854775807"),
        ("seed", -(2**63) - 1, "from -9223372036854775808"),
        ("seed", 1.5, "whole number"),
        ("top_p", -1, "from 0 to 1"),
        ("top_p", 1.01, "from 0 to 1"),
        ("top_p", float("nan"), "from 0 to 1"),
        ("top_p", "0.5", "a number"),
        ("min_p", 2, "from 0 to 1"),
        ("repetition_penalty", 0, "from 0.01 to 100"),
        ("repetition_penalty", 1e-300, "from 0.01 to 100"),
        ("repetition_penalty", -1.0, "from 0.01 to 100"),
        ("repetition_penalty", float("inf"), "from 0.01 to 100"),
        ("presence_penalty", 2.5, "from -2 to 2"),
        ("frequency_penalty", -3, "from -2 to 2"),
        ("temperature", 1e6, "from 0 to 100"),
        ("temperature", -0.1, "from 0 to 100"),
        ("temperature", float("nan"), "from 0 to 100"),
        ("temperature", None, "a number"),
        ("temperature", 10**400, "from 0 to 100"),
        ("max_tokens", 0, "1 or more"),
        ("max_tokens", 1e18, "whole number"),
        ("min_tokens", -1, "from 0"),
        ("min_tokens", 10**9, "from 0 to 62"),
        ("top_k", -2, "-1 or more"),
        ("top_k", 2.0, "whole number"),
        ("stop", "word", "a list of strings"),
        ("stop", ("a",) * 5, "at most 4"),
        ("stop", ("a", ""), "at least one character"),
        ("stop", ("a", 3), "at least one character"),
    ],
)
def test_values_out_of_range_are_refused_by_name_with_the_range(check, field, value, allowed) -> None:
    """B08."""
    started = time.perf_counter()
    error = refused(check, **{field: value})
    assert time.perf_counter() - started < 0.1
    assert error.param == field
    assert allowed in error.message
    assert "found" in error.message


@pytest.mark.parametrize("key", [VOCAB, VOCAB + 7, -3, "cat", "-3", "999999999999999999", 1.0, None])
def test_logit_bias_of_an_id_outside_the_vocabulary_names_the_key(check, key) -> None:
    """B01, and B74: the vocabulary is the tokenizer's, not the width of the output layer."""
    error = refused(check, logit_bias={key: 5.0})
    assert error.param == "logit_bias"
    assert repr(key) in error.message
    assert str(VOCAB) in error.message


@pytest.mark.parametrize("value", [100.5, -101, float("nan"), float("inf"), "5", None])
def test_logit_bias_values_are_bounded(check, value) -> None:
    assert refused(check, logit_bias={7: value}).param == "logit_bias"


def test_logit_bias_takes_json_keys_and_a_bounded_number_of_them(check) -> None:
    assert check(logit_bias={"12": -100, 3: 5}).logit_bias == {12: -100.0, 3: 5.0}
    assert "at most 3" in refused(check, logit_bias=dict.fromkeys(range(4), 1.0)).message


@pytest.mark.parametrize("token_id", [VOCAB, VOCAB + 5, -1, "7", True])
def test_stop_token_ids_outside_the_vocabulary_are_refused(check, token_id) -> None:
    """B02."""
    assert refused(check, stop_token_ids=(7, token_id)).param == "stop_token_ids"


@pytest.mark.parametrize("top_k", [0, -1, VOCAB, VOCAB + 1000, 2**31, 2**70])
def test_top_k_off_or_beyond_the_vocabulary_is_off(check, top_k) -> None:
    """B05."""
    assert check(top_k=top_k).top_k == 0


def test_other_top_k_is_kept(check) -> None:
    assert check(top_k=VOCAB - 1).top_k == VOCAB - 1


@pytest.mark.parametrize("temperature", [1e-4, 1e-5, 1e-6, 1e-12, 0, 0.0])
def test_tiny_temperatures_are_greedy(check, temperature) -> None:
    """B07."""
    assert check(temperature=temperature).temperature == 0.0


@pytest.mark.parametrize("temperature", [1e-3, 1e-2, 1])
def test_other_temperatures_are_kept(check, temperature) -> None:
    assert check(temperature=temperature).temperature == temperature


def test_top_p_zero_is_the_most_likely_token(check) -> None:
    params = check(top_p=0, top_k=40)
    assert (params.top_k, params.top_p) == (1, 1.0)


def test_seeds_are_taken_modulo_two_to_the_63(check) -> None:
    assert check(seed=-1).seed == 2**63 - 1
    assert check(seed=7).seed == 7
    assert check().seed is None


@pytest.mark.parametrize(
    ("prompts", "param"),
    [
        ((), "prompt"),
        ((Rendered(()),), "prompt"),
        ((Rendered((1,), param="prompt[0]"), Rendered((), "", "prompt[1]")), "prompt[1]"),
    ],
)
def test_empty_prompts_are_refused_naming_the_element(check, prompts, param) -> None:
    """B04."""
    error = refused(check, prompts=prompts)
    assert (error.param, error.code) == (param, "empty_prompt")


def test_too_many_prompts_are_refused(check) -> None:
    assert "at most 4" in refused(check, prompts=(Rendered((1,)),) * 5).message


def test_a_prompt_that_leaves_no_room_is_refused_with_both_numbers(check) -> None:
    error = refused(check, prompts=(Rendered((1,) * 64, param="messages"),))
    assert (error.param, error.code) == ("messages", "context_length_exceeded")
    assert "64 tokens" in error.message
    assert "at most 63" in error.message
    assert check(prompts=(Rendered((1,) * 63),)).max_tokens is None


def test_max_tokens_beyond_the_room_is_refused_with_what_fits(check) -> None:
    prompts = (Rendered((1,) * 4, param="prompt[0]"), Rendered((1,) * 60, param="prompt[1]"))
    error = refused(check, prompts=prompts, max_tokens=5)
    assert error.param == "max_tokens"
    assert "at most 4" in error.message
    assert check(prompts=prompts, max_tokens=4).max_tokens == 4


def test_a_prompt_token_that_the_model_has_no_score_for_is_refused_before_the_engine(check) -> None:
    error = refused(check, prompts=(Rendered((5, 6)), Rendered((5, VOCAB), param="prompt[1]")))
    assert (error.param, error.code) == ("prompt[1]", "unknown_token_id")
    assert check(prompts=(Rendered((VOCAB - 1,)),)).n == 1


@pytest.mark.parametrize("ids", [5, None, "12"])
def test_stop_token_ids_that_are_no_list_are_refused(ids, card, limits, prompt) -> None:
    with pytest.raises(RequestError, match="stop_token_ids must be a list of token ids"):
        check_sampling(SamplingParams(stop_token_ids=ids), card, limits, [prompt("a")])


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("bad_words", (" ",), "not blank"),
        ("bad_words", ("ok", ""), "not blank"),
        ("bad_words", ("\t\n",), "not blank"),
        ("bad_words", (5,), "not blank"),
        ("bad_words", ("half \ud83d",), "surrogate"),
        ("bad_words", ("a" * 1001,), "at most 1000"),
        ("bad_words", ("a", "b", "c", "d"), "at most 3 (--server.max-bad-words)"),
        ("bad_words", "word", "a list of strings"),
        ("allowed_token_ids", (), "at least one"),
        ("allowed_token_ids", (5, VOCAB), "from 0 to 299"),
        ("allowed_token_ids", (-1,), "from 0 to 299"),
        ("allowed_token_ids", (True,), "whole number"),
        ("allowed_token_ids", "12", "a list of token ids"),
        ("prompt_logprobs", 6, "from 0 to 5"),
        ("prompt_logprobs", -1, "from 0 to 5"),
        ("prompt_logprobs", True, "whole number"),
        ("logprobs_mode", "cooked", "'raw' or 'processed'"),
        ("logprobs_mode", ["raw"], "'raw' or 'processed'"),
    ],
)
def test_restrictions_are_refused_by_name_with_what_is_allowed(check, field, value, allowed) -> None:
    """B08 and B10."""
    error = refused(check, **{field: value})
    assert error.param == field
    assert allowed in error.message


def test_allowed_ids_are_in_order_and_each_once(check) -> None:
    assert check(allowed_token_ids=[9, 2, 9, 5]).allowed_token_ids == (2, 5, 9)
    assert check().allowed_token_ids is None


def test_bad_words_are_kept_as_they_are(check) -> None:
    assert check(bad_words=[" cat", "dog", "dog"]).bad_words == (" cat", "dog")


def test_no_tokens_are_generated_only_where_one_prompt_is_scored(check) -> None:
    """B16."""
    assert refused(check, max_tokens=0).param == "max_tokens"
    assert "prompt_logprobs" in refused(check, max_tokens=0).message
    assert refused(check, max_tokens=0, prompt_logprobs=0, n=2).param == "n"
    assert refused(check, max_tokens=0, prompt_logprobs=0, min_tokens=1).param == "min_tokens"
    full = (Rendered((1,) * 64),)
    assert check(prompts=full, max_tokens=0, prompt_logprobs=0).max_tokens == 0
    error = refused(check, prompts=(Rendered((1,) * 65),), max_tokens=0, prompt_logprobs=0)
    assert "at most 64" in error.message


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"priority": 2**31 + 1}, "priority"),
        ({"priority": True}, "priority"),
        ({"cache_salt": "x" * 257}, "cache_salt"),
        ({"cache_salt": 5}, "cache_salt"),
    ],
)
def test_priority_and_salt_of_a_prompt_are_bounded(check, fields, param) -> None:
    assert refused(check, prompts=(Rendered((1,), **fields),)).param == param
    assert check(prompts=(Rendered((1,), priority=-(2**31), cache_salt="x" * 256),)).n == 1


def test_what_is_reported_of_prompts_is_bounded_over_all_choices(card, limits) -> None:
    long = dataclasses.replace(card, max_model_len=100_000)
    prompt = Rendered((1,) * 90_000)

    def asked(n: int, count: int) -> SamplingParams:
        return check_sampling(SamplingParams(n=n, prompt_logprobs=count), long, limits, (prompt,))

    assert asked(2, 0).n == 2
    with pytest.raises(RequestError, match="360000 entries .* at most 250000") as caught:
        asked(2, 1)
    assert (caught.value.status, caught.value.param) == (400, "prompt_logprobs")


@pytest.mark.parametrize("field", ["stop_token_ids", "allowed_token_ids"])
def test_lists_of_token_ids_are_bounded(card, limits, field) -> None:
    ids = tuple(at % card.vocab_size for at in range(limits.max_token_ids + 1))
    with pytest.raises(RequestError, match="--server.max-token-ids") as caught:
        check_sampling(SamplingParams(**{field: ids}), card, limits, (Rendered((1,)),))
    assert (caught.value.status, caught.value.param) == (400, field)


def test_more_choices_than_can_ever_run_and_wait_are_refused_for_good(card, limits) -> None:
    prompts = [Rendered((1,))] * 4
    assert check_sampling(SamplingParams(n=5), card, limits, prompts).n == 5
    with pytest.raises(RequestError, match="--max-num-seqs . --max-waiting") as caught:
        check_sampling(SamplingParams(n=6), card, limits, prompts)
    assert (caught.value.status, caught.value.param) == (400, "n")


def test_prompts_may_be_bounded_below_the_models_length(card, limits) -> None:
    bounded = dataclasses.replace(limits, max_prompt_tokens=3)
    assert check_sampling(SamplingParams(), card, bounded, (Rendered((1, 2, 3)),)).n == 1
    with pytest.raises(RequestError, match="--server.max-prompt-tokens") as caught:
        check_sampling(SamplingParams(), card, bounded, (Rendered((1, 2, 3, 4)),))
    assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")
