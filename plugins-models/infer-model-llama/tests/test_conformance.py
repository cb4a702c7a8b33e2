from __future__ import annotations

from functools import partial

from infer_testkit.model import ModelConformance
from infer_testkit.tiny_checkpoints import ROPES, make_llama, make_mistral


class TestLlama(ModelConformance):
    family = "llama"
    checkpoints = {
        "plain": make_llama,
        "tied": partial(make_llama, tied=True),
        "biased": partial(make_llama, attention_bias=True, mlp_bias=True),
        "wide heads": partial(make_llama, head_dim=24, num_key_value_heads=1),
        "sharded": partial(make_llama, shards=3),
    }


class TestRopeTypes(ModelConformance):
    family = "llama"
    checkpoints = {name: partial(make_llama, rope=name, max_position_embeddings=64) for name in ROPES}


class TestMistral(ModelConformance):
    family = "llama"
    checkpoints = {"window": make_mistral, "no window": partial(make_mistral, window=None)}
