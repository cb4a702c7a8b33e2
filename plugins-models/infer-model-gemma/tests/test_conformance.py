from __future__ import annotations

from functools import partial

from infer_testkit.model import ModelConformance
from infer_testkit.tiny_checkpoints import make_gemma3


class TestGemma3(ModelConformance):
    family = "gemma"
    checkpoints = {
        "plain": make_gemma3,
        "untied": partial(make_gemma3, tie_word_embeddings=False),
        "capped": partial(make_gemma3, final_logit_softcapping=5.0),
        "biased": partial(make_gemma3, attention_bias=True),
        "only sliding": partial(make_gemma3, layer_types=["sliding_attention"] * 3),
    }
