"""What the engine does to serve many must change no token: caching, budgets, preemption, processes, neighbours.

Every variant is compared with each prompt run alone, one step's tokens unbounded, without the prefix cache. Float sums
depend on the shape of a batch, so a first difference where the model saw a tie is no difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infer import LLM, SamplingParams
from parity import TIE, prompt_texts, random_prompts
from tiny_llama import write_tiny_llama

POOL_BLOCKS = 40
MAX_SHORT, SHORT_COUNT = 40, 32
"""Tokens of prompt and answer in the pool of 40 blocks: each request fits, more begin than can end together."""

VARIANTS: dict[str, dict[str, Any]] = {
    "cache off": {"cache.prefix_caching": False},
    "cache on": {},
    "budget 32": {"max_num_batched_tokens": 32},
    "budget 64": {"max_num_batched_tokens": 64},
    "budget 32, cache off": {"max_num_batched_tokens": 32, "cache.prefix_caching": False},
    "another process": {"engine_process": "separate"},
    "another process, budget 64": {"engine_process": "separate", "max_num_batched_tokens": 64},
}


@dataclass(frozen=True)
class Subject:
    """A model, its prompts, and what each of them gets alone: tokens, and how far the second best was at each."""

    path: str
    block_bytes: int
    count: int
    prompts: list[list[int]]
    alone: list[tuple[tuple[int, ...], tuple[float, ...]]]
    alone_short: list[tuple[tuple[int, ...], tuple[float, ...]]]


def open_llm(path: str, **options: Any) -> LLM:
    sizes: dict[str, Any] = {"dtype": "float32", "max_num_seqs": 32, "engine_process": "inline"}
    # On a machine that does other things, more threads mostly wait for each other.
    sizes |= {"platform.cpu.threads": 1}
    if Path(path).is_dir():
        sizes |= {"kv_cache_memory": "32MiB"}
    else:
        sizes |= {"kv_cache_memory": "1GiB", "max_model_len": 2048}
    return LLM(path, **{**sizes, **options})


def greedy(count: int, **more: Any) -> SamplingParams:
    return SamplingParams(temperature=0.0, max_tokens=count, ignore_eos=True, **more)


def run_alone(llm: LLM, prompts: Sequence[list[int]], count: int) -> list[tuple[tuple[int, ...], tuple[float, ...]]]:
    found = []
    for prompt in prompts:
        answer = llm.generate([prompt], greedy(count, logprobs=2))[0].outputs[0]
        gaps = [abs((token.top[0].logprob or 0.0) - (token.top[1].logprob or 0.0)) for token in answer.logprobs]
        found.append((answer.token_ids, tuple(gaps)))
    return found


def subject_of(path: str, block_bytes: int, count: int, prompts: list[list[int]]) -> Subject:
    with open_llm(path, **{"cache.prefix_caching": False}) as llm:
        short = [prompt[:MAX_SHORT] for prompt in prompts]
        return Subject(
            path, block_bytes, count, prompts, run_alone(llm, prompts, count), run_alone(llm, short, SHORT_COUNT)
        )


def tokens_of(llm: LLM, prompts: Sequence[Sequence[int]], count: int) -> list[tuple[int, ...]]:
    return [reply.outputs[0].token_ids for reply in llm.generate(prompts, greedy(count))]


def compare(found: Sequence[tuple[int, ...]], want: Sequence[tuple[tuple[int, ...], tuple[float, ...]]]) -> int:
    """Number of prompts that end in a tie; raises on any other difference."""
    ties = 0
    for number, (ours, (theirs, gaps)) in enumerate(zip(found, want, strict=True)):
        assert len(ours) == len(theirs)
        first = next((at for at, pair in enumerate(zip(ours, theirs, strict=True)) if pair[0] != pair[1]), None)
        assert first is None or gaps[first] < TIE, f"prompt {number} differs at token {first}, gap {gaps[first]}"
        ties += first is not None
    return ties


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    path = write_tiny_llama(tmp_path_factory.mktemp("mechanics"))
    return subject_of(str(path), 2 * 2 * 8 * 2 * 4 * 16, 12, random_prompts(300, range(1, 101, 5), seed=5))


@pytest.fixture(scope="module")
def tiny_gemma(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """Seven layers, of which one sees everything and the others 12 tokens: seven KV groups of one layer each."""
    import torch
    from transformers import AutoModelForCausalLM, Gemma3TextConfig

    config = Gemma3TextConfig(
        vocab_size=320,
        hidden_size=48,
        intermediate_size=96,
        num_hidden_layers=7,
        num_attention_heads=6,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        initializer_range=0.3,
        sliding_window=12,
        query_pre_attn_scalar=24,
        bos_token_id=1,
        eos_token_id=2,
    )
    torch.manual_seed(4)
    path = tmp_path_factory.mktemp("mechanics-gemma")
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(path)
    return subject_of(str(path), 2 * 16 * 2 * 4 * 16, 12, random_prompts(300, range(1, 101, 5), seed=6))


@pytest.fixture(scope="module", params=["smollm2", "gemma3-270m"])
def real(request: pytest.FixtureRequest) -> Subject:
    block_bytes = {"smollm2": 30 * 3 * 64 * 2 * 4 * 16, "gemma3-270m": 3 * 1 * 256 * 2 * 4 * 16}[request.param]
    with open_llm(request.param) as llm:
        assert llm.tokenizer is not None
        prompts = [llm.tokenizer.encode(text) for text in prompt_texts()]
    return subject_of(request.param, block_bytes, 32, prompts)


def check_variant(subject: Subject, name: str) -> None:
    """All prompts at once, then all of them again; the second time they are found in the cache, where there is one."""
    with open_llm(subject.path, **VARIANTS[name]) as llm:
        ties = compare(tokens_of(llm, subject.prompts, subject.count), subject.alone)
        before = llm.stats().cached_tokens
        ties += compare(tokens_of(llm, subject.prompts, subject.count), subject.alone)
        cached = llm.stats().cached_tokens - before
    assert (cached > 0) == ("cache off" not in name), cached
    print(f"{Path(subject.path).name}, {name}: 2 x {len(subject.prompts)} prompts, {ties} ties, {cached} tokens cached")


def check_small_pool(subject: Subject, **options: Any) -> None:
    memory = str(POOL_BLOCKS * subject.block_bytes)
    prompts = [prompt[:MAX_SHORT] for prompt in subject.prompts]
    sizes = {"kv_cache_memory": memory, "max_num_batched_tokens": 64, "max_model_len": MAX_SHORT + SHORT_COUNT}
    with open_llm(subject.path, **sizes, **options) as llm:
        assert llm.stats().num_blocks == POOL_BLOCKS - 1
        ties = compare(tokens_of(llm, prompts, SHORT_COUNT), subject.alone_short)
        stats = llm.stats()
    assert stats.num_preemptions > 0
    assert stats.num_free_blocks == stats.num_blocks
    print(f"{Path(subject.path).name}, {POOL_BLOCKS} blocks: {stats.num_preemptions} preemptions, {ties} ties")


def check_neighbours(subject: Subject) -> None:
    """Each prompt among 31 others, some of which sample, end early, or ask for more than the prompt at hand."""
    total = len(subject.prompts)
    with open_llm(subject.path) as llm:
        for turn in range(0, total, 10):
            rows = [subject.prompts[(turn + at) % total] for at in range(32)]
            sampling = [
                greedy(subject.count)
                if at < 10
                else SamplingParams(temperature=(at % 3) * 0.5, seed=at, max_tokens=3 + 2 * at, top_p=0.9)
                for at in range(32)
            ]
            found = [reply.outputs[0].token_ids for reply in llm.generate(rows, sampling)[:10]]
            compare(found, [subject.alone[(turn + at) % total] for at in range(len(found))])


@pytest.fixture(scope="module", params=["tiny", "tiny_gemma"])
def small(request: pytest.FixtureRequest) -> Subject:
    found: Subject = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("name", VARIANTS)
def test_tiny_models_give_the_tokens_that_each_prompt_gets_alone(small: Subject, name: str) -> None:
    check_variant(small, name)


@pytest.mark.parametrize("caching", [True, False])
def test_tiny_models_preempted_in_a_pool_of_forty_blocks_give_the_same_tokens(small: Subject, caching: bool) -> None:
    check_small_pool(small, **{"cache.prefix_caching": caching})


def test_tiny_models_among_31_neighbours_give_the_same_tokens(small: Subject) -> None:
    check_neighbours(small)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", VARIANTS)
def test_real_models_give_the_tokens_that_each_prompt_gets_alone(real: Subject, name: str) -> None:
    check_variant(real, name)


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("caching", [True, False])
def test_real_models_preempted_in_a_pool_of_forty_blocks_give_the_same_tokens(real: Subject, caching: bool) -> None:
    check_small_pool(real, **{"cache.prefix_caching": caching})


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_real_models_among_31_neighbours_give_the_same_tokens(real: Subject) -> None:
    check_neighbours(real)
