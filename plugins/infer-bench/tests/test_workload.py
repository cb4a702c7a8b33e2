from __future__ import annotations

from infer_bench.options import BenchOptions
from infer_bench.workload import Workload

WORKLOAD = Workload(num_prompts=3, input_len=5, output_len=2, seed=7, vocab_size=11)


def test_prompts_have_the_asked_number_and_length_and_known_ids() -> None:
    prompts = WORKLOAD.prompts(0)
    assert [len(prompt) for prompt in prompts] == [5, 5, 5]
    assert {token_id for prompt in prompts for token_id in prompt} <= set(range(11))


def test_a_seed_gives_the_same_prompts_again() -> None:
    assert WORKLOAD.prompts(2) == WORKLOAD.prompts(2)


def test_every_run_and_every_seed_has_its_own_prompts() -> None:
    other = Workload(num_prompts=3, input_len=5, output_len=2, seed=8, vocab_size=11)
    assert WORKLOAD.prompts(0) != WORKLOAD.prompts(1)
    assert WORKLOAD.prompts(0) != WORKLOAD.prompts(-1)
    assert WORKLOAD.prompts(0) != other.prompts(0)


def test_the_number_of_prompts_has_a_default_per_kind() -> None:
    assert Workload.of(BenchOptions(), 11, num_prompts=4).num_prompts == 4
    assert Workload.of(BenchOptions(num_prompts=9), 11, num_prompts=4).num_prompts == 9
