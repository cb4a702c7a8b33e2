"""Kind `executors`: where workers live, and how step calls reach them."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from infer_api.steps import SampleInputs, StepPlan, StepResult

__all__ = ["Executor", "StepHandle", "WorkerSpec"]

StepHandle = Any
"""What `forward` returns and `sample` takes; opaque to the engine."""


@dataclass(frozen=True)
class WorkerSpec:
    """How to build a worker, as plain data that can be pickled.

    `worker` is the import path of the worker class, called as `worker(rank, config, plugins)`; `config` is the
    effective configuration as plain data, `plugins` the pinned plugin set as plain data.
    """

    worker: str
    config: dict[str, Any]
    plugins: dict[str, Any]
    num_ranks: int = 1
    extra: dict[str, Any] = field(default_factory=dict)


class Executor(Protocol):
    """Built by the manifest's `implementation(options)`. All calls come from the engine's thread."""

    def __init__(self, options: Any) -> None: ...

    def start(self, spec: WorkerSpec) -> None:
        """Build the workers and load the model. Raises what the worker raised."""
        ...

    def forward(self, plan: StepPlan) -> StepHandle:
        """Start the forward pass of a step."""
        ...

    def sample(self, handle: StepHandle, inputs: SampleInputs) -> Future[StepResult]:
        """Draw the next tokens of a step that was started, in the order in which steps were started."""
        ...

    def call(self, method: str, *args: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        """Control calls only (sizes, statistics), never in the loop."""
        ...

    def health(self) -> str | None:
        """None when all workers answer, else what is wrong."""
        ...

    def shutdown(self) -> None: ...
