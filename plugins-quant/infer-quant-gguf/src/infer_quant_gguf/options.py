"""Options of the two plugins of this package."""

from __future__ import annotations

from typing import Literal

from infer_api.options import Options

__all__ = ["GgufLoaderOptions", "GgufQuantOptions"]


class GgufLoaderOptions(Options):
    """Options of the GGUF loader."""

    pre_tokenizer: str = ""
    """Way of cutting text into words, by its GGUF name ("llama-bpe", "qwen2", ...), in place of the file's own
    tokenizer.ggml.pre. Empty means the file's own."""


class GgufQuantOptions(Options):
    """Options of computing with GGUF weights."""

    keep: Literal["packed", "dense"] = "packed"
    """Keep weights "packed" as in the file and dequantise them in every step, or make them "dense" once at load,
    which takes four to six times the memory; measure which is faster on your machine."""
