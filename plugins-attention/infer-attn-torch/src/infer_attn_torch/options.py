"""Options of the `torch` attention backend."""

from __future__ import annotations

from pydantic import Field

from infer_api.options import Options

__all__ = ["TorchAttentionOptions"]


class TorchAttentionOptions(Options):
    """Options of the plain PyTorch attention backend."""

    gather_mib: int = Field(default=2, ge=1, le=4096)
    """How many MiB of keys (and as many of values) are copied out of the cache at once; about the size of the
    processor's level-2 cache is fastest on CPU, more is better on a GPU."""

    query_chunk: int = Field(default=512, ge=16, le=65536)
    """Most queries of one request that share a mask; bounds the memory of long prompts with a cached prefix or a
    sliding window."""
