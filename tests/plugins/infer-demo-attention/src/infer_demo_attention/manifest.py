"""What the plugin offers, as data. Imports no torch."""

from __future__ import annotations

from infer_api.manifest import AttentionPlugin, AttentionSupport, Requires
from infer_demo_attention.options import DemoAttentionOptions

__all__ = ["PLUGIN"]

PLUGIN = AttentionPlugin(
    name="demo",
    summary="Sample backend of a third party: paged attention, one row and one group of heads at a time.",
    implementation="infer_demo_attention.backend:DemoAttention",
    options=DemoAttentionOptions,
    supports=AttentionSupport(
        devices=frozenset({"*"}),
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
        features=frozenset({"sliding_window", "softcap"}),
    ),
    # Low: it is here to be read and to be asked for by name, not to win against a fast backend.
    priority=1,
    requires=Requires(modules=("torch",), torch=">=2.11"),
)
