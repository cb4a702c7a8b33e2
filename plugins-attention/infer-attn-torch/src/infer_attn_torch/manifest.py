"""What the plugin offers, as data."""

from __future__ import annotations

from infer_api.manifest import AttentionPlugin, AttentionSupport, Requires
from infer_attn_torch.options import TorchAttentionOptions

__all__ = ["PLUGIN"]

PLUGIN = AttentionPlugin(
    name="torch",
    summary="Paged attention in plain PyTorch; correct on every device, fast on CPU.",
    implementation="infer_attn_torch.backend:TorchAttention",
    options=TorchAttentionOptions,
    supports=AttentionSupport(
        devices=frozenset({"*"}),
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
        features=frozenset({"sliding_window", "softcap", "bidirectional"}),
    ),
    priority=10,
    requires=Requires(modules=("torch",), torch=">=2.11"),
)
