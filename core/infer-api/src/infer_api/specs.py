"""Frozen descriptions that models, attention backends and quantization methods exchange. No tensors, no torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from infer_api.errors import ModelError

__all__ = [
    "MAX_LAYERS",
    "MAX_SIZE",
    "MAX_WIDTH",
    "AttentionSite",
    "AttentionSpec",
    "CheckpointConfig",
    "EmbeddingSpec",
    "Epilogue",
    "KVGroup",
    "KVLayout",
    "KVLimits",
    "KVSpec",
    "KVTensor",
    "LinearSpec",
    "ModelFacts",
    "NormStyle",
    "Part",
    "Reason",
    "Retain",
    "Score",
    "Shard",
]

MAX_LAYERS, MAX_WIDTH, MAX_SIZE = 1024, 1 << 20, (1 << 31) - 1
"""Most layers, values of a vector, and anything else that a configuration may ask for: beyond lies a damaged file."""

D = TypeVar("D", bound=float | None)

Shard = Literal["none", "output", "input"]
"""How tensor parallelism cuts a linear: not at all, by output rows (column parallel), by input (row parallel)."""

Epilogue = Literal["none", "silu_mul", "gelu_tanh_mul"]
"""What follows a linear: gated activations take two equal parts, gate then up, and give act(gate) * up."""

NormStyle = Literal["rms", "rms_unit_offset"]
"""RMSNorm (arXiv:1910.07467) scaled by w, or by 1 + w."""


@dataclass(frozen=True)
class Reason:
    """Why a candidate does not fit, in one sentence without a full stop."""

    text: str


@dataclass(frozen=True)
class Score:
    """How well a platform fits this machine (higher wins), and why."""

    value: int
    because: str


@dataclass(frozen=True)
class CheckpointConfig:
    """Configuration of a checkpoint as its file states it, with the place for error messages.

    `dialect` names the naming scheme of keys and tensors; `where` the file; `tensors` the names of the tensors
    that the checkpoint holds (some facts show only there); `architecture_key` the key of the architecture's name.
    """

    dialect: str
    where: str
    values: Mapping[str, Any]
    tensors: frozenset[str] = frozenset()
    architecture_key: str = "architectures"

    @property
    def architecture(self) -> str:
        """The architecture's name in this dialect, the first of a list. Raises ModelError where the file lacks it."""
        found = self.values.get(self.architecture_key)
        names = [found] if isinstance(found, str) else found or []
        if names == []:
            raise ModelError(
                f"{self.where}: the key {self.architecture_key!r} is missing or empty, so no model plugin can be chosen"
            )
        if not isinstance(names, list | tuple) or not isinstance(names[0], str):
            raise self._wrong(self.architecture_key, "a name or a list of names")
        return names[0]

    def require(self, key: str) -> Any:
        """Value of `key`. Raises ModelError naming file and key when it is missing or null."""
        value = self.values.get(key)
        if value is None:
            raise ModelError(f"{self.where}: the key {key!r} is missing")
        return value

    def require_int(self, key: str, maximum: int = MAX_SIZE) -> int:
        """Value of `key` as an int from 1 to `maximum`. Raises ModelError naming file and key."""
        value = self.require(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= maximum:
            raise self._wrong(key, f"a positive integer, at most {maximum}")
        return value

    def get_int(self, key: str, default: D, maximum: int = MAX_SIZE) -> int | D:
        """Like `require_int`, but `default` when the key is missing or null."""
        return default if self.values.get(key) is None else self.require_int(key, maximum)

    def require_float(self, key: str) -> float:
        """Value of `key`, a number above 0 in the range of float32. Raises ModelError naming file and key."""
        value = self.require(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 3e38:
            raise self._wrong(key, "a number above 0")
        return float(value)

    def get_float(self, key: str, default: D) -> float | D:
        """Like `require_float`, but `default` when the key is missing or null."""
        return default if self.values.get(key) is None else self.require_float(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Value of `key`, or `default` when it is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def _wrong(self, key: str, wanted: str) -> ModelError:
        return ModelError(f"{self.where}: the key {key!r} must be {wanted}, found {self.values[key]!r:.60}")


@dataclass(frozen=True)
class ModelFacts:
    """What the engine needs to know of a model before it is built.

    `dtype` is the checkpoint's own ("float32", "bfloat16", …). `plugin` is the family's own frozen
    configuration, opaque to core. `tied` says whether the output head is the embedding table.
    """

    architecture: str
    dialect: str
    num_layers: int
    width: int
    vocab_size: int
    max_positions: int
    tied: bool
    dtype: str
    plugin: Any = None
    causal: bool = True


@dataclass(frozen=True)
class Part:
    """One of several projections that share their input and are computed as one matrix product."""

    name: str
    d_out: int


@dataclass(frozen=True)
class LinearSpec:
    """One linear layer as a model asks for it. `d_out` is the sum of the parts, before any epilogue."""

    name: str
    d_in: int
    parts: tuple[Part, ...]
    shard: Shard = "none"
    bias: bool = False
    epilogue: Epilogue = "none"

    def __post_init__(self) -> None:
        if self.epilogue != "none" and (len(self.parts) != 2 or self.parts[0].d_out != self.parts[1].d_out):
            raise ModelError(f"linear {self.name!r}: epilogue {self.epilogue!r} needs two parts of equal width")

    @property
    def d_out(self) -> int:
        return sum(part.d_out for part in self.parts)

    def slot(self, part: Part) -> str:
        """Logical weight slot of `part`: "layers.3.attn.qkv#q", or the bare name for an unnamed part."""
        return f"{self.name}#{part.name}" if part.name else self.name


@dataclass(frozen=True)
class EmbeddingSpec:
    """Token embedding [vocab_size, width]; `head` is the slot of an output head of its own, None without one."""

    name: str
    vocab_size: int
    width: int
    head: str | None = None
    tied: bool = False


@dataclass(frozen=True)
class AttentionSpec:
    """One attention layer. Sizes are per head; `window` counts the tokens a query sees, itself included.

    `scale` multiplies q·k; `softcap` c bounds scores to c·tanh(s/c); `causal=False` is an encoder.
    """

    num_heads: int
    num_kv_heads: int
    head_size: int
    scale: float
    window: int | None = None
    softcap: float | None = None
    causal: bool = True
    sinks: bool = False

    def __post_init__(self) -> None:
        if self.num_kv_heads <= 0 or self.num_heads % self.num_kv_heads:
            raise ModelError(f"{self.num_heads} query heads are not a multiple of {self.num_kv_heads} key-value heads")


@dataclass(frozen=True)
class Retain:
    """Which tokens of a sequence a layer still needs: all of them, or the last `window`."""

    window: int | None = None


@dataclass(frozen=True)
class KVTensor:
    """One cached tensor of a layer: `heads` vectors of `width` for each token (or each sequence)."""

    name: str
    heads: int
    width: int


@dataclass(frozen=True)
class KVSpec:
    """What one layer keeps of a sequence. Layers with equal specs may share a group.

    `per` is "token" or "sequence" (recurrent state); `shard_heads` whether tensor parallelism cuts the heads.
    """

    tensors: tuple[KVTensor, ...]
    per: Literal["token", "sequence"] = "token"
    retain: Retain = field(default_factory=Retain)
    shard_heads: bool = True


@dataclass(frozen=True)
class KVLayout:
    """How an attention backend stores one block of one layer: a shape and dtype per tensor of the KVSpec.

    A cache tensor is [num_blocks, *shape]. `bytes_per_block` counts all tensors of one layer.
    """

    shapes: Mapping[str, tuple[int, ...]]
    dtype: str
    bytes_per_block: int


@dataclass(frozen=True)
class KVGroup:
    """Layers that share one block table: attention `layers` by name, `spec`, and the tokens in a block."""

    index: int
    spec: KVSpec
    layers: tuple[str, ...]
    block_tokens: int

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)


@dataclass(frozen=True)
class KVLimits:
    """Upper bounds for buffers that live as long as the engine: rows and tokens of a step, tokens of a sequence."""

    max_rows: int
    max_tokens: int
    max_seq_tokens: int


@dataclass(frozen=True)
class AttentionSite:
    """Everything a backend may look at before saying whether it fits: one kind of layer on one device."""

    spec: AttentionSpec
    device_type: str
    dtype: str
    kv_dtype: str
    block_tokens: int
    compute_capability: str = ""
