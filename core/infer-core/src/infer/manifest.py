"""What infer-core itself offers, by the same road as any plugin."""

from __future__ import annotations

from infer_api.manifest import (
    ExecutorPlugin,
    LoaderPlugin,
    LoaderSupport,
    QuantizationPlugin,
    QuantizationSupport,
    TokenizerPlugin,
    TokenizerSupport,
)

__all__ = ["DENSE", "INLINE", "JSON_TOKENIZER", "SAFETENSORS"]

SAFETENSORS = LoaderPlugin(
    name="safetensors",
    summary="A folder with config.json and *.safetensors files, as Hugging Face lays them out.",
    implementation="infer.model.safetensors:SafetensorsCheckpoint",
    supports=LoaderSupport(dialect="hf", contains=("config.json",)),
    priority=50,
)

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

JSON_TOKENIZER = TokenizerPlugin(
    name="json",
    summary="Any tokenizer.json, through the `tokenizers` library.",
    implementation="infer.text.tokenizer:JsonTokenizer",
    supports=TokenizerSupport(formats=frozenset({"tokenizer.json"})),
    priority=50,
)

INLINE = ExecutorPlugin(
    name="inline",
    summary="One worker inside the engine's own process.",
    implementation="infer.engine.inline:InlineExecutor",
    priority=50,
)
