"""What infer-core itself offers, by the same road as any plugin."""

from __future__ import annotations

from infer_api.manifest import (
    ExecutorPlugin,
    LoaderPlugin,
    LoaderSupport,
    QuantizationPlugin,
    QuantizationSupport,
)

__all__ = ["DENSE", "INLINE", "SAFETENSORS"]

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

SAFETENSORS = LoaderPlugin(
    name="safetensors",
    summary="A folder with config.json and *.safetensors files, as Hugging Face lays them out.",
    implementation="infer.model.safetensors:SafetensorsCheckpoint",
    # A folder with a tokenizer alone can be opened, too, for its tokenizer.
    supports=LoaderSupport(dialect="hf", contains=("config.json", "tokenizer.json")),
    priority=50,
)
