"""The family's own configuration, read from config.json."""

from __future__ import annotations

from dataclasses import dataclass

from infer_api.errors import ModelError
from infer_api.specs import CheckpointConfig

__all__ = ["DemoConfig"]


@dataclass(frozen=True)
class DemoConfig:
    """Sizes of one model, under the names that its config.json uses.

    Block i adds `residual_scale` · (i + 1)^-½ times the sum of its two branches to the stream.
    """

    num_blocks: int
    stream_width: int
    query_heads: int
    key_heads: int
    head_width: int
    hidden_width: int
    vocab_size: int
    max_tokens: int
    residual_scale: float
    rope_base: float
    window: int | None
    norm_eps: float
    tied: bool
    dtype: str

    @classmethod
    def read(cls, config: CheckpointConfig) -> DemoConfig:
        """Raises ModelError naming the file and the key that is missing or wrong."""
        read = cls(
            num_blocks=config.require_int("num_blocks"),
            stream_width=config.require_int("stream_width"),
            query_heads=config.require_int("query_heads"),
            key_heads=config.require_int("key_heads"),
            head_width=config.require_int("head_width"),
            hidden_width=config.require_int("hidden_width"),
            vocab_size=config.require_int("vocab_size"),
            max_tokens=config.require_int("max_tokens"),
            residual_scale=float(config.require("residual_scale")),
            rope_base=float(config.get("rope_base", 10000.0)),
            window=config.get("window"),
            norm_eps=float(config.get("norm_eps", 1e-6)),
            tied=bool(config.get("tied", True)),
            dtype=str(config.get("dtype", "float32")),
        )
        if read.query_heads % read.key_heads:
            raise ModelError(
                f"{config.where}: query_heads {read.query_heads} is not a multiple of key_heads {read.key_heads}"
            )
        return read

    def block_scale(self, index: int) -> float:
        """Factor of what block `index` adds to the stream."""
        return self.residual_scale / float(index + 1) ** 0.5
