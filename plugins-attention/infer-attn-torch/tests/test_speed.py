from __future__ import annotations

import time

import pytest
import torch

from infer_api.rope import RopeSpec
from infer_api.specs import AttentionSpec
from infer_attn_torch.backend import TorchAttention
from infer_attn_torch.options import TorchAttentionOptions
from infer_testkit.paged import PagedRun
from infer_testkit.reference import rotary_tables

ROWS, CONTEXT, LAYERS = 32, 160, 30


@pytest.mark.perf
def test_a_decode_step_of_32_rows_through_30_layers_takes_less_than_25_ms() -> None:
    seconds = min(decode_steps(num_steps=12))
    print(
        f"{LAYERS} layers, {ROWS} rows of {CONTEXT} tokens: {seconds * 1e3:.1f} ms on {torch.get_num_threads()} threads"
    )
    assert seconds < 0.025


def decode_steps(num_steps: int) -> list[float]:
    """Seconds of each of some decode steps, over caches of their own for each layer."""
    spec = AttentionSpec(9, 3, 64, scale=0.125)
    rope = rotary_tables(RopeSpec(64), 512)
    backend = TorchAttention(TorchAttentionOptions())
    run = PagedRun(backend, spec, torch.Generator().manual_seed(0), rope=rope, num_blocks=400)
    run.step({f"r{row}": CONTEXT - num_steps for row in range(ROWS)})
    layers = [
        type(run.layer)(f"layers.{i}", spec, rope, {k: v.clone() for k, v in run.layer.kv.items()})
        for i in range(LAYERS)
    ]
    taken = []
    for _ in range(num_steps):
        inputs = run.draw_inputs({f"r{row}": 1 for row in range(ROWS)}, frozenset())
        batch, out = run.admit(inputs), torch.empty_like(inputs.q)
        with torch.inference_mode():
            started = time.perf_counter()
            backend.plan(run.meta, batch)
            for layer in layers:
                backend.attend(layer, inputs.q, inputs.k, inputs.v, run.meta, out)
            taken.append(time.perf_counter() - started)
    return taken
