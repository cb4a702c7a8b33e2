"""Real models, greedy, 20 prompts of 64 tokens, against transformers in float32. Fetches the models by alias.

The reference for a GGUF file is transformers' own reading of that file, which dequantises with the `gguf` package.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from infer import LLM, SamplingParams
from infer.model.source import ensure_model
from infer.plugins.discovery import discover
from infer.service.options import config_from_options
from parity import TIE, first_difference, prompt_texts, reference_tokens

pytestmark = pytest.mark.slow

COUNT = 64
GREEDY = SamplingParams(temperature=0.0, max_tokens=COUNT, ignore_eos=True)


@pytest.fixture(scope="module", params=["smollm2", "gemma3-270m"])
def model_file(request: pytest.FixtureRequest) -> Path:
    index = discover()
    config = config_from_options(index, {"model.name": request.param})
    return ensure_model(config, index).path


@pytest.fixture(scope="module")
def reference(model_file: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        str(model_file.parent), gguf_file=model_file.name, dtype=torch.float32
    ).eval()


@pytest.fixture(scope="module")
def expected(model_file: Path, reference: Any) -> list[tuple[list[int], list[int], torch.Tensor]]:
    """Prompt ids, the reference's tokens, and its logits."""
    with open_llm(model_file) as llm:
        prompts = [llm.tokenizer.encode(text) for text in prompt_texts()]
    assert max(len(prompt) for prompt in prompts) > 1400
    return [(prompt, *reference_tokens(reference, prompt, COUNT)) for prompt in prompts]


def save_plain(reference: Any, folder: Path) -> None:
    """Write the dequantised weights as an ordinary float32 folder."""
    from transformers import AutoModelForCausalLM

    config = copy.deepcopy(reference.config)
    del config.quantization_config
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(reference.state_dict())
    model.save_pretrained(folder)


def open_llm(path: Path, **options: Any) -> LLM:
    return LLM(str(path), dtype="float32", kv_cache_memory="2GiB", max_model_len=2048, **options)


def compare(found: Sequence[Sequence[int]], expected: Sequence[tuple[list[int], list[int], torch.Tensor]]) -> int:
    """Number of prompts with a tie; raises on any other difference."""
    ties = 0
    for ours, (_, theirs, logits) in zip(found, expected, strict=True):
        difference = first_difference(ours, theirs, logits)
        assert difference is None or difference.gap < TIE, difference
        ties += difference is not None
    return ties


@pytest.mark.timeout(1800)
def test_the_gguf_file_equals_transformers(model_file: Path, expected: Any) -> None:
    prompts = [prompt for prompt, _, _ in expected]
    with open_llm(model_file) as llm:
        found = [reply.outputs[0].token_ids for reply in llm.generate(prompts, GREEDY)]
    print(f"{model_file.name}: {len(found)} prompts, {compare(found, expected)} ties")


@pytest.mark.timeout(1800)
def test_the_same_weights_as_safetensors_equal_transformers(
    model_file: Path, reference: Any, expected: Any, tmp_path: Path
) -> None:
    save_plain(reference, tmp_path)
    prompts = [prompt for prompt, _, _ in expected]
    with open_llm(tmp_path) as llm:
        found = [reply.outputs[0].token_ids for reply in llm.generate(prompts, GREEDY)]
        print(f"{model_file.stem} as safetensors: {len(found)} prompts, {compare(found, expected)} ties")
        alone = [llm.generate([prompt], GREEDY)[0].outputs[0].token_ids for prompt in prompts[:16]]
    compare(alone, expected[:16])
    for budget in (32, 64):
        with open_llm(tmp_path, max_num_batched_tokens=budget, max_num_seqs=16) as llm:
            chunked = [reply.outputs[0].token_ids for reply in llm.generate(prompts[:16], GREEDY)]
        compare(chunked, expected[:16])
