"""The executor whose one worker lives in the engine's own process."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from infer_api.executors import StepHandle, WorkerSpec
from infer_api.steps import SampleInputs, StepPlan, StepResult

__all__ = ["InlineExecutor"]


class InlineExecutor:
    """Calls the worker directly: a plan is a Python object that is never copied."""

    def __init__(self, options: Any) -> None:
        self._worker: Any = None

    def start(self, spec: WorkerSpec) -> None:
        module, _, attribute = spec.worker.partition(":")
        self._worker = getattr(importlib.import_module(module), attribute)(0, spec.config, spec.plugins, **spec.extra)

    def forward(self, plan: StepPlan) -> StepHandle:
        return self._worker.forward(plan)

    def sample(self, handle: StepHandle, inputs: SampleInputs) -> Future[StepResult]:
        result: Future[StepResult] = Future()
        result.set_result(self._worker.sample(handle, inputs))
        return result

    def call(self, method: str, *args: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        return [getattr(self._worker, method)(*args)]

    def health(self) -> str | None:
        return None if self._worker is not None else "the worker has not been started"

    def shutdown(self) -> None:
        self._worker = None
