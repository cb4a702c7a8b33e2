"""What this package offers: a loader for GGUF files and a method to compute with their weights."""

from __future__ import annotations

from infer_api.manifest import LoaderPlugin, LoaderSupport, QuantizationPlugin, QuantizationSupport
from infer_quant_gguf.options import GgufLoaderOptions, GgufQuantOptions

__all__ = ["LOADER", "QUANTIZATION"]

LOADER = LoaderPlugin(
    name="gguf",
    summary="GGUF files, with their configuration, tokenizer and chat template.",
    implementation="infer_quant_gguf.loader:GgufCheckpoint",
    options=GgufLoaderOptions,
    supports=LoaderSupport(dialect="gguf", suffixes=(".gguf",)),
    priority=50,
    roles=("api", "engine", "worker"),
)

QUANTIZATION = QuantizationPlugin(
    name="gguf",
    summary="Weights that stay quantized as in their GGUF file, computed with in plain PyTorch.",
    implementation="infer_quant_gguf.method:GgufQuant",
    options=GgufQuantOptions,
    supports=QuantizationSupport(
        dialects=frozenset({"gguf"}),
        methods=frozenset({""}),
        devices=frozenset({"*"}),
        dtypes=frozenset({"float32", "bfloat16", "float16"}),
    ),
    priority=50,
)
