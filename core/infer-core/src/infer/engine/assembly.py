"""Starts an engine for a configuration, in this process or in one of its own."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from infer.engine.inline_client import InlineClient
from infer.engine.plan import Decision, EnginePlan, plan_engine
from infer.engine.process_client import ProcessClient
from infer.engine.start import EngineFacts, EngineSpec, Progress
from infer.engine.supervisor import StartableClient, Supervisor
from infer.engine.vitals import Patience
from infer.model.source import name_source
from infer.plugins.discovery import PluginIndex
from infer.plugins.pluginset import PluginSet
from infer_api.executors import WorkerSpec
from infer_api.services import EngineClient
from infer_api.specs import ModelFacts
from infer_api.tokenizers import Tokenizer, TokenizerSource

if TYPE_CHECKING:
    from infer.config.sections import InferConfig, ParallelConfig

__all__ = ["Decision", "EnginePlan", "StartedEngine", "plan_engine", "start_client"]

WORKER = "infer.runner.worker:Worker"


@dataclass(frozen=True)
class StartedEngine:
    """A running engine, and what the serving side needs to know of it."""

    client: EngineClient
    plan: EnginePlan
    facts: ModelFacts
    tokenizer: Tokenizer | None
    tokenizer_source: TokenizerSource | None
    max_model_len: int
    capacity_tokens: int
    plugin_set: PluginSet
    decisions: tuple[Decision, ...]
    recommended: Mapping[str, float] = field(default_factory=dict)


async def start_client(
    config: InferConfig, index: PluginIndex, *, inline: bool | None = None, progress: Progress | None = None
) -> StartedEngine:
    """Plan, load and start. `inline` overrides `parallel.engine_process` (an `LLM` always runs inline)."""
    plan = plan_engine(config, index)
    tokenizer = _tokenizer(plan)  # before the weights: a damaged one is known sooner, and leaves no engine behind
    spec = EngineSpec(
        executor=plan.selections["executors"].winner.qualified,
        worker=WorkerSpec(WORKER, plan.worker.to_dict(), plan.plugin_set.to_dict()),
        max_num_seqs=plan.worker.max_num_seqs,
        max_num_batched_tokens=plan.worker.max_num_batched_tokens,
        in_flight=plan.device.in_flight,
        policy=plan.selections["schedulers"].winner.qualified,
        prefix_caching=config.cache.prefix_caching,
        max_waiting=config.scheduler.max_waiting,
        max_prefill_delay_s=config.scheduler.max_prefill_delay_ms / 1000,
        log_format=config.observability.log_format,
        log_level=logging.getLevelName(logging.getLogger("infer").getEffectiveLevel()),
    )
    is_inline = config.parallel.engine_process != "separate" if inline is None else inline
    client = _client(config.parallel, is_inline)
    loaded = await client.start(spec, progress)
    return StartedEngine(
        client=client,
        plan=plan,
        facts=plan.facts,
        tokenizer=tokenizer,
        tokenizer_source=plan.tokenizer_source,
        max_model_len=loaded.max_model_len,
        capacity_tokens=loaded.capacity_tokens,
        plugin_set=plan.plugin_set,
        decisions=(*plan.decisions, *_bounded(plan, loaded)),
        recommended=getattr(name_source(config, index), "sampling", {}),
    )


def _client(parallel: ParallelConfig, is_inline: bool) -> StartableClient:
    kind = InlineClient if is_inline else ProcessClient
    patience = Patience(parallel.engine_silence_s, parallel.engine_kill_s, parallel.step_timeout_s)
    if parallel.on_engine_death == "exit":
        return kind(patience)
    return Supervisor(lambda on_death: kind(patience, on_death), parallel.max_restarts)


def _bounded(plan: EnginePlan, loaded: EngineFacts) -> Iterator[Decision]:
    if loaded.max_model_len < plan.worker.max_model_len:
        because = "the longest request that the KV cache can hold; --kv-cache-memory sets its size"
        yield Decision("model.max_model_len", str(loaded.max_model_len), because)


def _tokenizer(plan: EnginePlan) -> Tokenizer | None:
    if plan.tokenizer_source is None:
        return None
    tokenizer: Tokenizer = plan.plugin_set.load("tokenizers", plan.chosen("tokenizers"))(plan.tokenizer_source)
    return tokenizer
