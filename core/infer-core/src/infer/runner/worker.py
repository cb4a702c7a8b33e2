"""One worker: a device, a model on it, its KV cache and step state. Built from plain data, stepped by an executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from infer.kv.cache import KVBudget, allocate, bytes_per_block, num_blocks_for
from infer.kv.groups import KVGeometry, form_groups
from infer.model.factory import CoreLayerFactory
from infer.model.load import Progress, build_and_load
from infer.ops.table import OpTable
from infer.plugins.pluginset import PluginSet
from infer.runner.bad_words import Vocabulary
from infer.runner.constraints import why_failed
from infer.runner.processors import Processors
from infer.runner.prompt_scores import PromptSpan, find_spans, score
from infer.runner.sampler import Drawn, draw
from infer.runner.sampling import SamplingTable
from infer.runner.table import Prepared, RequestTable
from infer_api.attention import AttentionBackend
from infer_api.errors import ConfigError
from infer_api.loaders import Checkpoint
from infer_api.models import Model, ModelFamily
from infer_api.platforms import Platform
from infer_api.processors import ProcessorContext
from infer_api.quantization import QuantMethod
from infer_api.specs import KVLimits, ModelFacts
from infer_api.steps import SampledRow, SampleInputs, StepPlan, StepResult

__all__ = ["StepInputs", "Worker", "WorkerConfig"]


@dataclass(frozen=True)
class WorkerConfig:
    """What a worker is told, all of it resolved and plain. Names are those of plugins in the pinned set."""

    model_path: str
    loader: str
    family: str
    platform: str
    quantization: str
    attention: str
    ops: tuple[str, ...]
    dtype: str
    kv_dtype: str
    block_tokens: int
    kv_cache_bytes: int | None
    memory_fraction: float | None
    max_num_seqs: int
    max_num_batched_tokens: int
    max_model_len: int
    max_model_len_is_asked: bool
    processors: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> WorkerConfig:
        lists = {name: tuple(data.get(name, ())) for name in ("ops", "processors")}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class StepInputs:
    """What `forward` leaves for `sample`: scores [R, V] of the rows to sample, and whose they are.

    Where prompts are to be scored also which tokens, and the hidden states [T, D] of the step.
    """

    step_id: int
    logits_RV: Tensor | None
    prepared: Prepared
    spans: tuple[PromptSpan, ...] = ()
    h_TD: Tensor | None = None


class Worker:
    """Holds everything of one rank. `forward` then `sample`, once per step and in order."""

    def __init__(
        self, rank: int, config: Mapping[str, Any], plugins: Mapping[str, Any], *, progress: Progress | None = None
    ) -> None:
        self.config = WorkerConfig.from_dict(config)
        plugin_set = PluginSet.from_dict(plugins)
        self.platform: Platform = plugin_set.make("platforms", self.config.platform)
        self.device = self.platform.device(rank)
        self.backend: AttentionBackend = plugin_set.make("attention", self.config.attention)
        self.facts, self.factory, self.model = self._load(plugin_set, progress)
        self._size_cache()
        self._bind_cache(plugin_set)

    def geometry(self) -> KVGeometry:
        """Groups and size of the KV cache, for the scheduler."""
        return self._geometry

    def max_model_len(self) -> int:
        """Longest sequence in tokens: what was asked, or what model and KV cache both allow."""
        return self._max_model_len

    def set_vocabulary(self, tokens: Sequence[bytes]) -> None:
        """The bytes of every token by id, empty for special ones; needed before the first request with bad words."""
        self.sampling.vocabulary = Vocabulary(tokens, self.facts.vocab_size, self.device)

    @torch.inference_mode()
    def forward(self, plan: StepPlan) -> StepInputs:
        """Take in what the plan changes, run the model over its rows, and score the rows to sample."""
        for admitted in plan.admitted:
            self.table.admit(admitted)
            self.sampling.admit(admitted)
        for grant in plan.granted:
            self.table.grant(grant)
        scored = self.sampling.scored_slots
        spans = find_spans(plan.rows, self.sampling.rows, self.table.tokens_SL) if scored else ()
        prepared = self.table.prepare(plan.rows)
        for meta, batch in zip(self._metas, prepared.batches, strict=True):
            self.backend.plan(meta, batch)
        x_TD = self.model.embed(prepared.ids_T)
        h_TD = self.model.forward(x_TD, prepared.positions_T)
        logits_RV = self.model.logits(h_TD[prepared.sample_at_R]) if prepared.sample_slots else None
        return StepInputs(plan.step_id, logits_RV, prepared, spans, h_TD if spans else None)

    @torch.inference_mode()
    def sample(self, step: StepInputs, inputs: SampleInputs) -> StepResult:
        """Draw the next token of each sampling row and write it into the request table; score prompts."""
        assert inputs.step_id == step.step_id, "steps are sampled in the order in which they were started"
        prompts = [score(span, step.h_TD, self.model) for span in step.spans if step.h_TD is not None]
        if step.logits_RV is None:
            return StepResult(step_id=step.step_id, rows=[], prompts=prompts)
        slots, slots_R = step.prepared.sample_slots, step.prepared.sample_slots_R
        drawn = draw(step.logits_RV, slots, slots_R, self.table.computed_S[slots_R], self.sampling)
        self.table.write_back(slots_R, drawn.token_ids_R)
        self.sampling.record(slots, drawn.token_ids_R)
        return StepResult(step_id=step.step_id, rows=self._sampled(slots, drawn), prompts=prompts)

    def _sampled(self, slots: Sequence[int], drawn: Drawn) -> list[SampledRow]:
        rows = []
        drawn_ids, verdicts = drawn.token_ids_R.tolist(), drawn.verdict_R.tolist()
        for index, (slot, token_id, verdict) in enumerate(zip(slots, drawn_ids, verdicts, strict=True)):
            row = self.sampling.rows[slot]
            if verdict or index in drawn.errors:
                rows.append(SampledRow(slot, [], None, drawn.errors.get(index) or why_failed(verdict, row)))
                continue
            if row.history is not None:
                row.take(token_id)
            logprobs = drawn.logprobs.get(index)
            rows.append(SampledRow(slot, [token_id], [logprobs] if logprobs is not None else None))
        return rows

    # -- start-up ---------------------------------------------------------------------------------------

    def _load(self, plugins: PluginSet, progress: Progress | None) -> tuple[ModelFacts, CoreLayerFactory, Model]:
        config = self.config
        quant: QuantMethod = plugins.make("quantization", config.quantization)
        family: ModelFamily = plugins.make("models", config.family)
        offers = [(name, plugins.make("ops", name)) for name in config.ops]
        checkpoint: Checkpoint = plugins.make("loaders", config.loader, Path(config.model_path))
        try:
            facts = family.facts(checkpoint.config())
            factory = CoreLayerFactory(
                quant,
                OpTable(offers, self.device.type, config.dtype),
                device=self.device,
                dtype=getattr(torch, config.dtype),
                max_seq_tokens=config.max_model_len,
            )
            available = self.platform.memory().free_bytes
            model = build_and_load(family, facts, checkpoint, factory, available_bytes=available, progress=progress)
        finally:
            checkpoint.close()
        return facts, factory, model

    def _size_cache(self) -> None:
        config = self.config
        self._groups = form_groups(self.factory.kv_specs, config.block_tokens)
        self._layouts = {
            group.spec: self.backend.layout(group.spec, config.block_tokens, config.kv_dtype) for group in self._groups
        }
        chunk = min(config.max_num_batched_tokens, config.max_model_len)
        ideal = KVGeometry(self._groups, 2, config.block_tokens, chunk)
        useful = 1 + config.max_num_seqs * ideal.blocks_for(config.max_model_len)
        fraction = config.memory_fraction or self.platform.facts().default_memory_fraction
        budget = KVBudget(config.kv_cache_bytes, fraction, self.platform.memory().free_bytes)
        num_blocks = num_blocks_for(budget, bytes_per_block(self._groups, self._layouts), useful)
        self._geometry = KVGeometry(self._groups, num_blocks, config.block_tokens, chunk)
        capacity = self._geometry.capacity_tokens(config.max_model_len)
        if capacity < config.max_model_len and config.max_model_len_is_asked:
            raise ConfigError(
                f"one request of {config.max_model_len} tokens (--max-model-len) needs "
                f"{self._geometry.blocks_for(config.max_model_len)} KV blocks, but only "
                f"{self._geometry.num_usable} fit; raise --kv-cache-memory, or lower --max-model-len to {capacity}"
            )
        self._max_model_len = min(capacity, config.max_model_len)

    def _bind_cache(self, plugins: PluginSet) -> None:
        config = self.config
        views = allocate(self.platform, self._groups, self._layouts, self._geometry.num_blocks)
        limits = KVLimits(config.max_num_seqs, config.max_num_batched_tokens, self._max_model_len)
        self._metas = [self.backend.static_meta(group, limits, self.device) for group in self._groups]
        for group, meta in zip(self._groups, self._metas, strict=True):
            for layer in group.layers:
                self.factory.attention_layers[layer].kv.update(views[layer])
                self.factory.step.metas[layer] = meta
        self.factory.step.attention = self.backend
        self.table = RequestTable(self.platform, self._groups, limits, config.block_tokens)
        context = ProcessorContext(self.facts.vocab_size, self.device)
        processors = Processors(config.processors, plugins, context)
        self.sampling = SamplingTable(self.platform, config.max_num_seqs, self.facts.vocab_size, processors)
