"""`open_services`: configuration and plugin index → a running engine with everything that routes and commands need."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import infer
from infer.model.source import name_source
from infer.plugins.discovery import PluginIndex
from infer.plugins.hooks import HookCaller
from infer.service.guard import KeyGuard, read_keys
from infer.service.outputs import TextPipeline
from infer.service.processors import processor_offers
from infer.service.renderer import TextRenderer
from infer.service.validate import check_scores
from infer.text.chat_template import ChatTemplate, find_chat_template
from infer_api.errors import ModelError, RequestError
from infer_api.requests import SamplingParams
from infer_api.services import Limits, ModelCard, Services
from infer_api.tokenizers import TokenizerSource

if TYPE_CHECKING:
    from infer.config.sections import InferConfig
    from infer.engine.assembly import StartedEngine
    from infer.engine.start import Progress

__all__ = ["Starter", "generation_defaults", "open_services", "served_names"]

Starter = Callable[..., Awaitable["StartedEngine"]]
"""`infer.engine.assembly.start_client`, or what a test puts in its place."""
DEFAULTS_TAKEN = ("temperature", "top_k", "top_p", "min_p", "repetition_penalty")

_log = logging.getLogger(__name__)


@asynccontextmanager
async def open_services(
    config: InferConfig,
    index: PluginIndex,
    *,
    inline: bool | None = None,
    progress: Progress | None = None,
    start: Starter | None = None,
) -> AsyncIterator[Services]:
    """Start the engine, and close it on exit. What can be wrong without a model is checked before loading one.

    `inline` overrides `parallel.engine_process`; `progress` hears of weights being loaded. Raises InferError.
    """
    index = index.under(config.plugins)
    guard = KeyGuard(read_keys(config.server.api_keys, config.server.api_key_file))
    hooks = HookCaller.from_index(index, config.plugins.disabled)
    if config.model.chat_template is not None:
        find_chat_template(config.model.chat_template, None)
    engine = await (start or _default_start())(config, index, inline=inline, progress=progress)
    try:
        services = _services(config, index, engine, guard, hooks)
        hooks.call("infer_engine_started", model=services.models[0].id, facts=_started_facts(engine))
        yield services
    finally:
        hooks.call("infer_shutdown")
        await engine.client.close()


def served_names(config: InferConfig, index: PluginIndex) -> tuple[str, ...]:
    """Names that clients may use, the first one for replies: as configured, else made from the model's name."""
    return config.model.served_names or (name_source(config, index).name,)


def generation_defaults(source: TokenizerSource | None, alias: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Sampling values that the checkpoint recommends, else its `alias`; none when it says greedy (do_sample false).

    Raises ModelError for a value that no request could ask for.
    """
    if source is None or source.generation.get("do_sample") is False:
        return {}
    recommended = {**(alias or {}), **source.generation}
    found = {name: value for name in DEFAULTS_TAKEN if (value := recommended.get(name)) is not None}
    if isinstance(found.get("top_k"), float) and found["top_k"].is_integer():
        found["top_k"] = int(found["top_k"])
    try:
        check_scores(SamplingParams(**found))
    except RequestError as error:
        raise ModelError(f"{source.where}: in its generation config (generation_config.json), {error}") from None
    return found


def _default_start() -> Starter:
    from infer.engine.assembly import start_client  # torch is imported when an engine starts, not before

    return start_client


def _services(
    config: InferConfig, index: PluginIndex, engine: StartedEngine, guard: KeyGuard, hooks: HookCaller
) -> Services:
    source = engine.tokenizer_source
    template = find_chat_template(config.model.chat_template, source)
    card = _card(config, index, engine, template)
    _say_at_start(card, source)
    limits = _limits(config)
    offers = processor_offers(index, engine.plugin_set)
    outputs = TextPipeline(
        engine.client,
        engine.tokenizer,
        card,
        limits,
        eos_ids=source.eos_ids if source is not None else (),
        seed=config.model.seed,
        notify=hooks.call,  # routes may add hooks later
        processors={offer.name: offer.check for offer in offers},
        heeds_priority=_heeds_priority(index, engine),
    )
    return Services(
        engine=engine.client,
        renderer=TextRenderer(engine.tokenizer, template, card.vocab_size, card.max_model_len),
        outputs=outputs,
        models=(card,),
        guard=guard,
        limits=limits,
        version=infer.__version__,
        fingerprint=_fingerprint(card, engine),
        plugins=_plugin_list(index, engine),
        processors={offer.name: offer.schema for offer in offers},
        add_hooks=hooks.register,
        tell=hooks.call,
    )


def _card(config: InferConfig, index: PluginIndex, engine: StartedEngine, template: ChatTemplate | None) -> ModelCard:
    names = served_names(config, index)
    width = engine.facts.vocab_size
    return ModelCard(
        id=names[0],
        aliases=names[1:],
        max_model_len=engine.max_model_len,
        # Padded ids of the output layer have no token, and tokens beyond it no score: neither can be asked for.
        vocab_size=width if engine.tokenizer is None else min(width, engine.tokenizer.vocab_size),
        created_s=int(time.time()),
        has_chat_template=template is not None,
        defaults=generation_defaults(engine.tokenizer_source, engine.recommended),
    )


def _say_at_start(card: ModelCard, source: TokenizerSource | None) -> None:
    if source is None:
        _log.warning("the model %s has no tokenizer: only prompts of token ids can be served", card.id)
    if not card.has_chat_template:
        _log.warning(
            "the model %s has no chat template: completions work, chat is refused; --chat-template FILE sets one",
            card.id,
        )
    if card.defaults:
        values = ", ".join(f"{name} {value}" for name, value in card.defaults.items())
        _log.info("sampling defaults of the checkpoint, for what a request leaves out: %s", values)


def _limits(config: InferConfig) -> Limits:
    server = config.server
    return Limits(
        max_body_bytes=server.max_body_bytes,
        max_n=server.max_n,
        max_logprobs=server.max_logprobs,
        max_stop=server.max_stop,
        max_logit_bias=server.max_logit_bias,
        max_prompts=server.max_prompts,
        max_bad_words=server.max_bad_words,
        max_token_ids=server.max_token_ids,
        max_sequences=config.scheduler.max_num_seqs + config.scheduler.max_waiting,
        max_json_depth=server.max_json_depth,
        max_prompt_tokens=server.max_prompt_tokens,
    )


def _heeds_priority(index: PluginIndex, engine: StartedEngine) -> bool:
    """Whether the chosen scheduling policy looks at the priority of a request."""
    pinned = {(each.name, each.distribution) for each in engine.plugin_set.entries if each.kind == "schedulers"}
    policies = (each for each in index.records() if each.kind == "schedulers")
    return any(each.supports.get("heeds_priority") for each in policies if (each.name, each.distribution) in pinned)


def _fingerprint(card: ModelCard, engine: StartedEngine) -> str:
    """Changes with the version, the model, and any plugin or option of one."""
    text = f"{infer.__version__} {card.id} {engine.facts.architecture} {engine.plugin_set.digest}"
    return f"fp_{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _started_facts(engine: StartedEngine) -> dict[str, Any]:
    return {
        "architecture": engine.facts.architecture,
        "capacity_tokens": engine.capacity_tokens,
        "max_model_len": engine.max_model_len,
        "plugin_digest": engine.plugin_set.digest,
    }


def _plugin_list(index: PluginIndex, engine: StartedEngine) -> tuple[Mapping[str, Any], ...]:
    pinned = {(each.kind, each.name, each.distribution) for each in engine.plugin_set.entries}
    return tuple(
        {
            "kind": record.kind,
            "name": record.name,
            "distribution": record.distribution,
            "version": record.version,
            "summary": record.summary,
            "state": "selected" if (record.kind, record.name, record.distribution) in pinned else record.state,
            "reason": record.reason,
        }
        for record in index.records()
    )
