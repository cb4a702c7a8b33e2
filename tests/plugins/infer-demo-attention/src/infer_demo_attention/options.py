"""Options of the `demo` attention backend."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from infer_api.options import Options

__all__ = ["DemoAttentionOptions"]


class DemoAttentionOptions(Options):
    """Options of the sample attention backend."""

    query_chunk: int = Field(default=256, ge=1, le=65536)
    """Most new tokens of one request that are scored at once; bounds the memory that a long prompt takes."""

    accumulate: Literal["float32", "float64"] = "float32"
    """Type in which scores, probabilities and context vectors are computed."""
