"""What an engine for a model will be made of: every choice with its losers and reasons, before weights are read.

`infer explain` prints an `EnginePlan`; starting an engine begins with the same one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from infer.model.factory import CoreLayerFactory
from infer.model.source import ensure_model
from infer.ops.table import OpTable
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer.plugins.pluginset import PluginSet
from infer.plugins.select import (
    Selection,
    fits_attention,
    fits_loader,
    fits_model,
    fits_quantization,
    fits_tokenizer,
    select,
)
from infer.runner.worker import WorkerConfig
from infer_api.attention import AttentionBackend
from infer_api.errors import ConfigError, ModelError
from infer_api.loaders import Checkpoint
from infer_api.models import ModelFamily
from infer_api.platforms import DeviceFacts, Platform
from infer_api.quantization import QuantMethod
from infer_api.specs import AttentionSite, AttentionSpec, CheckpointConfig, ModelFacts, Reason
from infer_api.tokenizers import TokenizerSource

if TYPE_CHECKING:
    from infer.config.sections import InferConfig

__all__ = ["Decision", "EnginePlan", "plan_engine"]


@dataclass(frozen=True)
class Decision:
    """An "auto" that was resolved: option path, value, and why."""

    option: str
    value: str
    because: str


@dataclass(frozen=True)
class EnginePlan:
    """Plain results of planning; nothing of it holds a file or a device open."""

    config: InferConfig
    model_path: Path
    facts: ModelFacts
    device: DeviceFacts
    worker: WorkerConfig
    tokenizer_source: TokenizerSource | None
    plugin_set: PluginSet
    selections: Mapping[str, Selection]
    decisions: tuple[Decision, ...]

    def chosen(self, kind: str) -> str:
        """Name of the plugin chosen for `kind`."""
        return self.selections[kind].winner.name


class _Planner:
    """Makes one choice after the other; each may need the plugins chosen before."""

    def __init__(self, config: InferConfig, index: PluginIndex) -> None:
        self.config = config
        self.index = index
        self.selections: dict[str, Selection] = {}
        self.decisions: list[Decision] = []

    def choose(self, kind: str, wanted: str, fits: Callable[[PluginRecord], Reason | None], *, fact: str = "") -> str:
        selection = select(self.index, kind, wanted, fits, fact=fact)
        self.selections[kind] = selection
        return selection.winner.qualified

    def make(self, record: PluginRecord, *arguments: object) -> object:
        return PluginSet.pin([record], self.config.options).make(record.kind, record.name, *arguments)

    def pinned(self) -> PluginSet:
        winners = [selection.winner for selection in self.selections.values()]
        return PluginSet.pin([*winners, *self.ops(), *self.processors()], self.config.options)

    def ops(self) -> list[PluginRecord]:
        """Every plugin that may offer ops, the best first; a call site takes the first offer that it gets."""
        return sorted(self._admitted("ops"), key=lambda record: -record.priority)

    def processors(self) -> list[PluginRecord]:
        """Logits processors that requests may use: those named, and for 'auto' all that may be used unasked."""
        kind, asked = "logits_processors", self.config.logits_processors.enabled
        named = [self.index.get(kind, name) for name in asked if name != "auto"]
        wanted = [*named, *(self._admitted(kind) if "auto" in asked else [])]
        return list({record.qualified: record for record in wanted}.values())

    def _admitted(self, kind: str) -> list[PluginRecord]:
        usable = [record for record in self.index.records(kind) if record.state != "failed"]
        return [one for one in usable if not self.index.is_third_party(one) or self.index.is_listed(one)]

    def decide(self, option: str, value: object, because: str) -> None:
        self.decisions.append(Decision(option, str(value), because))


def plan_engine(config: InferConfig, index: PluginIndex) -> EnginePlan:
    """Choose everything for `config.model`. Reads headers and configuration files, no weights.

    Raises ConfigError, ModelError or PluginError, each saying what to type instead.
    """
    planner = _Planner(config, index)
    path = ensure_model(config, index).path
    planner.choose("loaders", config.load.name, fits_loader(path))
    with _opened(planner, planner.selections["loaders"].winner, path) as checkpoint:
        return _plan(planner, path, checkpoint)


def _plan(planner: _Planner, path: Path, checkpoint: Checkpoint) -> EnginePlan:
    config, description = planner.config, checkpoint.config()
    platform, device = _platform(planner)
    family, facts = _model(planner, description)
    dtype = _dtype(planner, facts, device)
    quant = _quantization(planner, checkpoint, description, device, dtype)
    max_len = _max_model_len(planner, facts)
    specs = _attention_specs(family, facts, quant, max_len)
    _attention(planner, specs, device, dtype)
    source = _tokenizer_source(planner, checkpoint)
    if source is not None:
        planner.choose("tokenizers", config.tokenizer.name, fits_tokenizer(source.format))
    planner.choose("executors", config.executor.name, lambda record: None)
    planner.choose("schedulers", config.scheduler.name, lambda record: None)
    worker = _worker_config(planner, path, dtype, max_len)
    return EnginePlan(
        config=config,
        model_path=path,
        facts=facts,
        device=device,
        worker=worker,
        tokenizer_source=source,
        plugin_set=planner.pinned(),
        selections=planner.selections,
        decisions=tuple(planner.decisions),
    )


@contextlib.contextmanager
def _opened(planner: _Planner, loader: PluginRecord, path: Path) -> Iterator[Checkpoint]:
    checkpoint = planner.make(loader, path)
    try:
        yield checkpoint  # type: ignore[misc]
    finally:
        checkpoint.close()  # type: ignore[attr-defined]


def _tokenizer_source(planner: _Planner, checkpoint: Checkpoint) -> TokenizerSource | None:
    """The checkpoint's own, or the one that `model.tokenizer` names.

    The latter may say nothing of what ends a text or of chats: the checkpoint does. Sampling defaults are always its.
    """
    own, asked = checkpoint.tokenizer(), planner.config.model.tokenizer
    if asked is None:
        return own
    source = _read_tokenizer_at(planner, Path(asked).expanduser())
    planner.decide("model.tokenizer", source.where, "asked for")
    if own is None:
        return source
    templates = source.chat_templates or own.chat_templates
    return replace(source, eos_ids=source.eos_ids or own.eos_ids, chat_templates=templates, generation=own.generation)


def _read_tokenizer_at(planner: _Planner, path: Path) -> TokenizerSource:
    if not path.exists():
        raise ConfigError(f"--tokenizer {path}: there is no such file or folder")
    fits = fits_loader(path)
    if path.is_file() and all(fits(record) is not None for record in planner.index.records("loaders")):
        path = path.parent  # one of the files of a folder
    loader = select(planner.index, "loaders", "auto", fits_loader(path)).winner
    with _opened(planner, loader, path) as checkpoint:
        source = checkpoint.tokenizer()
    if source is None:
        raise ConfigError(f"--tokenizer {path}: it holds no tokenizer")
    return source


def _platform(planner: _Planner) -> tuple[Platform, DeviceFacts]:
    def fits(record: PluginRecord) -> Reason | None:
        platform: Platform = planner.make(record)  # type: ignore[assignment]
        answer = platform.probe()
        return answer if isinstance(answer, Reason) else None

    planner.choose("platforms", planner.config.platform.name, fits)
    platform: Platform = planner.make(planner.selections["platforms"].winner)  # type: ignore[assignment]
    return platform, platform.facts()


def _model(planner: _Planner, description: CheckpointConfig) -> tuple[ModelFamily, ModelFacts]:
    architecture = description.architecture
    planner.choose("models", "auto", fits_model(architecture, description.dialect), fact=architecture)
    family: ModelFamily = planner.make(planner.selections["models"].winner)  # type: ignore[assignment]
    return family, family.facts(description)


def _dtype(planner: _Planner, facts: ModelFacts, device: DeviceFacts) -> str:
    asked = planner.config.model.dtype
    if asked != "auto":
        if asked not in device.dtypes:
            raise ConfigError(f"--dtype {asked} is not supported on {device.name} (it has {', '.join(device.dtypes)})")
        return asked
    best = device.dtypes[0]
    if best != "float32" and facts.dtype in device.dtypes and facts.dtype != "float32":
        planner.decide("model.dtype", facts.dtype, "the checkpoint's own, and the device has it")
        return facts.dtype
    planner.decide("model.dtype", best, f"the fastest that {device.name} computes in")
    return best


def _quantization(
    planner: _Planner, checkpoint: Checkpoint, description: CheckpointConfig, device: DeviceFacts, dtype: str
) -> QuantMethod:
    method = str((description.get("quantization_config") or {}).get("quant_method") or "")
    by_data = fits_quantization(
        description.dialect, method, device.device_type, dtype, compute_capability=device.compute_capability
    )

    def fits(record: PluginRecord) -> Reason | None:
        reason = by_data(record)
        if reason is not None:
            return reason
        quant: QuantMethod = planner.make(record)  # type: ignore[assignment]
        return quant.match(checkpoint)

    planner.choose("quantization", planner.config.quantization.name, fits, fact=method)
    return planner.make(planner.selections["quantization"].winner)  # type: ignore[return-value]


def _max_model_len(planner: _Planner, facts: ModelFacts) -> int:
    asked = planner.config.model.max_model_len
    if asked is None:
        planner.decide("model.max_model_len", facts.max_positions, "what the model was trained for")
        return facts.max_positions
    if asked > facts.max_positions:
        raise ConfigError(f"--max-model-len {asked} is more than the {facts.max_positions} positions of the model")
    return asked


def _attention_specs(family: ModelFamily, facts: ModelFacts, quant: QuantMethod, max_len: int) -> list[AttentionSpec]:
    """Distinct attention layers of the model, found by building it without weights."""
    factory = CoreLayerFactory(
        quant, OpTable([], "cpu", "float32"), device=torch.device("cpu"), dtype=torch.float32, max_seq_tokens=max_len
    )
    family.build(facts, factory)
    specs = list(dict.fromkeys(layer.spec for layer in factory.attention_layers.values()))
    if not all(spec.causal for spec in specs):
        raise ModelError(
            f"{facts.architecture} attends in both directions (an encoder), and this engine only generates"
        )
    return specs


def _attention(planner: _Planner, specs: list[AttentionSpec], device: DeviceFacts, dtype: str) -> None:
    block_tokens = planner.config.cache.block_tokens

    def fits(record: PluginRecord) -> Reason | None:
        for spec in specs:
            by_data = fits_attention(
                device.device_type,
                dtype,
                spec.head_size,
                _features(spec),
                compute_capability=device.compute_capability,
            )
            reason = by_data(record)
            if reason is not None:
                return reason
        backend: AttentionBackend = planner.make(record)  # type: ignore[assignment]
        sites = (
            AttentionSite(spec, device.device_type, dtype, dtype, block_tokens, device.compute_capability)
            for spec in specs
        )
        return next((reason for site in sites if (reason := backend.check(site)) is not None), None)

    planner.choose("attention", planner.config.attention.name, fits)


def _features(spec: AttentionSpec) -> set[str]:
    wanted = {
        "sliding_window": spec.window is not None,
        "softcap": spec.softcap is not None,
        "sinks": spec.sinks,
        "bidirectional": not spec.causal,
    }
    return {word for word, is_wanted in wanted.items() if is_wanted}


def _worker_config(planner: _Planner, path: Path, dtype: str, max_len: int) -> WorkerConfig:
    config, chosen = planner.config, {kind: each.winner.qualified for kind, each in planner.selections.items()}
    num_seqs, num_tokens = config.scheduler.max_num_seqs, config.scheduler.max_num_batched_tokens
    if num_tokens < num_seqs:
        raise ConfigError(
            f"--max-num-batched-tokens {num_tokens} is less than --max-num-seqs {num_seqs}: "
            "a step must have room for one token of every sequence"
        )
    return WorkerConfig(
        model_path=str(path),
        loader=chosen["loaders"],
        family=chosen["models"],
        platform=chosen["platforms"],
        quantization=chosen["quantization"],
        attention=chosen["attention"],
        ops=tuple(record.qualified for record in planner.ops()),
        processors=tuple(record.qualified for record in planner.processors()),
        dtype=dtype,
        kv_dtype=dtype,
        block_tokens=config.cache.block_tokens,
        kv_cache_bytes=config.cache.kv_cache_memory,
        memory_fraction=config.cache.memory_fraction,
        max_num_seqs=num_seqs,
        max_num_batched_tokens=num_tokens,
        max_model_len=max_len,
        max_model_len_is_asked=config.model.max_model_len is not None,
    )
