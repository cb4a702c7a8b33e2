"""Log-probabilities of prompts from a real worker, in chunks and beside others, against transformers' own scores."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from infer.engine.plan import plan_engine
from infer.plugins.discovery import discover
from infer.runner.worker import Worker
from infer.service.options import config_from_options
from infer_api.requests import SamplingParams, TokenLogprobs
from infer_api.steps import AdmittedRow, BlockGrant, PlannedRow, SampleInputs, StepPlan
from parity import random_prompts
from tiny_llama import FORBIDDEN_ID, NUM_TOKENS, write_tiny_llama

SCORED = SamplingParams(prompt_logprobs=3, max_tokens=1, temperature=0.0)


def open_worker(folder: Path) -> Worker:
    index = discover()
    options = {"model.name": str(folder), "cache.kv_cache_memory": "4MiB", "model.max_model_len": 128}
    plan = plan_engine(config_from_options(index, options), index)
    return Worker(0, plan.worker.to_dict(), plan.plugin_set.to_dict())


def scores_in_chunks(worker: Worker, prompt: list[int], chunk: int, *, samples: bool) -> list[TokenLogprobs]:
    """Prompt in slot 1, while another row decodes in slot 0."""
    block_tokens = worker.config.block_tokens
    per_row = -(-128 // block_tokens)
    other = SamplingParams(temperature=0.0)
    admitted = [
        AdmittedRow(0, [5, 6], 2, 0, other, NUM_TOKENS),
        AdmittedRow(1, prompt, len(prompt), 0, SCORED, NUM_TOKENS),
    ]
    granted = [BlockGrant(slot, 0, 0, list(range(1 + slot * per_row, 1 + (slot + 1) * per_row))) for slot in (0, 1)]
    step = StepPlan(step_id=0, rows=[PlannedRow(0, 2, 2, True)], admitted=admitted, granted=granted)
    assert worker.sample(worker.forward(step), SampleInputs(step_id=0)).prompts == []
    found: list[TokenLogprobs] = []
    for number, begin in enumerate(range(0, len(prompt), chunk), start=1):
        end = min(begin + chunk, len(prompt))
        rows = [PlannedRow(0, 1, 2 + number, True), PlannedRow(1, end - begin, end, samples and end == len(prompt))]
        result = worker.sample(worker.forward(StepPlan(step_id=number, rows=rows)), SampleInputs(step_id=number))
        assert len(result.rows) == sum(row.samples for row in rows)
        for scores in result.prompts:
            assert (scores.slot, scores.first, scores.error) == (1, len(found) + 1, None)
            found.extend(scores.entries)
    return found


@pytest.mark.parametrize(("chunk", "samples"), [(100, True), (7, False), (1, True)])
def test_prompt_scores_equal_those_of_transformers(chunk: int, samples: bool, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    write_tiny_llama(tmp_path)
    prompt = random_prompts(NUM_TOKENS, (40,), seed=5)[0]
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = model(torch.tensor([prompt])).logits[0, :, :NUM_TOKENS]
    want = torch.log_softmax(logits, dim=-1)
    found = scores_in_chunks(open_worker(tmp_path), prompt, chunk, samples=samples)
    assert [entry.token_id for entry in found] == prompt[1:]
    for at, entry in enumerate(found):
        assert entry.logprob == pytest.approx(float(want[at, prompt[at + 1]]), abs=1e-3)
        assert entry.top_logprobs == pytest.approx(want[at].topk(3).values.tolist(), abs=1e-3)
        assert FORBIDDEN_ID not in entry.top_ids
