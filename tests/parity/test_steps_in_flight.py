"""Steps in flight on a real worker: a plan never needs the outcome of the step before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infer import LLM, SamplingParams
from infer.engine import plan
from infer_api.platforms import DeviceFacts
from parity import random_prompts
from tiny_llama import write_tiny_llama


@pytest.mark.parametrize("memory", ["64MiB", "60KiB"])
def test_the_depth_of_the_pipeline_changes_no_token(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tiny_llama(tmp_path)
    prompts = random_prompts(300, (1, 9, 20, 33, 5, 40), seed=3)
    sampling = [
        SamplingParams(
            temperature=0.0 if i % 2 else 0.8,
            seed=i,
            top_p=0.9,
            max_tokens=30,
            ignore_eos=True,
            presence_penalty=0.5 * (i % 3 == 0),
        )
        for i in range(len(prompts))
    ]
    found, preempted = [], []
    original = plan._platform
    for depth in (1, 2, 3):

        def deep(planner: plan._Planner, depth: int = depth) -> tuple[object, DeviceFacts]:
            platform, facts = original(planner)
            return platform, DeviceFacts(**{**vars(facts), "in_flight": depth})

        monkeypatch.setattr(plan, "_platform", deep)
        with LLM(str(tmp_path), kv_cache_memory=memory, max_model_len=80, max_num_batched_tokens=64) as llm:
            found.append([reply.outputs[0].token_ids for reply in llm.generate(prompts, sampling)])
            preempted.append(llm.stats().num_preemptions)
    assert found[0] == found[1] == found[2]
    assert all(count > 0 for count in preempted) == (memory == "60KiB")
