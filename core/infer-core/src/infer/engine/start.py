"""From an engine's specification, as plain data, to a loaded engine; in whichever process it shall live."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from infer.engine.core import Engine, EngineRules
from infer.kv.groups import KVGeometry
from infer.plugins.pluginset import PluginSet
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.executors import Executor, WorkerSpec
from infer_api.schedulers import Policy

__all__ = ["EngineFacts", "EngineSpec", "Progress", "load_engine"]

Progress = Callable[[str, int, int], None]
"""Called while weights load: what is being loaded, bytes done, bytes in all."""


@dataclass(frozen=True)
class EngineSpec:
    """How to build an engine. Plain data: it is pickled into the engine's process."""

    executor: str
    worker: WorkerSpec
    max_num_seqs: int
    max_num_batched_tokens: int
    in_flight: int
    policy: str
    """Name of the scheduling policy in the plugin set."""
    prefix_caching: bool = True
    max_waiting: int = 4096
    max_prefill_delay_s: float = 0.0
    """Longest that a step with prompts may delay rows that decode; 0 is no bound."""
    log_level: str = "warning"
    """For a process of the engine's own: from which level on it logs to standard error."""
    log_format: str = "text"


@dataclass(frozen=True)
class EngineFacts:
    """What is known once the model is loaded: longest sequence, and tokens that the KV cache holds."""

    max_model_len: int
    capacity_tokens: int


def load_engine(spec: EngineSpec, progress: Progress | None = None) -> tuple[Engine, EngineFacts, Executor]:
    """Start the executor, load the model and put an engine on top. Raises InferError when that fails."""
    plugins = PluginSet.from_dict(spec.worker.plugins)
    executor: Executor = plugins.make("executors", spec.executor)
    policy: Policy = plugins.make("schedulers", spec.policy)
    extra = {**spec.worker.extra, "progress": progress}
    executor.start(
        WorkerSpec(spec.worker.worker, spec.worker.config, spec.worker.plugins, spec.worker.num_ranks, extra)
    )
    geometry: KVGeometry = executor.call("geometry")[0]
    max_model_len: int = executor.call("max_model_len")[0]
    limits = SchedulerLimits(spec.max_num_seqs, spec.max_num_batched_tokens, max_model_len, spec.max_prefill_delay_s)
    rules = EngineRules(spec.in_flight, spec.max_waiting, spec.prefix_caching, plugins.digest)
    engine = Engine(executor, geometry, limits, policy, rules)
    return engine, EngineFacts(max_model_len, geometry.total_tokens), executor
