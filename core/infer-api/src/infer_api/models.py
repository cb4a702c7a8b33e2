"""Kind `models`: one family of architectures per plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from infer_api.specs import CheckpointConfig, ModelFacts
from infer_api.weights import WeightMap

if TYPE_CHECKING:
    from torch import Tensor, nn

    from infer_api.layers import LayerFactory

__all__ = ["Model", "ModelFamily"]


class Model(Protocol):
    """The built module. Letters: T tokens of the step, D width, R rows to sample, V vocabulary."""

    def embed(self, ids_T: Tensor) -> Tensor:
        """Token ids [T] int64 → x [T, D]."""
        ...

    def forward(self, x_TD: Tensor, positions_T: Tensor) -> Tensor:
        """x [T, D] → hidden states [T, D] after the last norm."""
        ...

    def logits(self, h_RD: Tensor) -> Tensor:
        """Hidden states of the rows to sample [R, D] → scores [R, V]."""
        ...


class ModelFamily(Protocol):
    """Built by the manifest's `implementation(options)`. Pure but for `build`."""

    def __init__(self, options: Any) -> None: ...

    def facts(self, config: CheckpointConfig) -> ModelFacts:
        """Read the configuration in its dialect. Raises ModelError naming the file and the key at fault."""
        ...

    def build(self, facts: ModelFacts, make: LayerFactory) -> nn.Module:
        """A module that satisfies `Model`, made of the factory's layers, without weights."""
        ...

    def weights(self, facts: ModelFacts) -> WeightMap:
        """Which stored tensor fills which slot, in the dialect of `facts`."""
        ...
