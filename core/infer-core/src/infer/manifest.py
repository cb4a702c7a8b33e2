"""What infer-core itself offers, by the same road as any plugin."""

from __future__ import annotations

from infer_api.manifest import ExecutorPlugin, QuantizationPlugin, QuantizationSupport

__all__ = ["DENSE", "INLINE"]

DENSE = QuantizationPlugin(
    name="dense",
    summary="Plain weights in float32, bfloat16 or float16.",
    implementation="infer.model.dense:DenseQuant",
    supports=QuantizationSupport(
        dialects=frozenset({"*"}),
        methods=frozenset({""}),
        devices=frozenset({"*"}),
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
    ),
    priority=10,
)

INLINE = ExecutorPlugin(
    name="inline",
    summary="One worker inside the engine's own process.",
    implementation="infer.engine.inline:InlineExecutor",
    priority=50,
)
