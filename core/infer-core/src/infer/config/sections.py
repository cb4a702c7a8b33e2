"""`InferConfig`: every option of infer, said once.

Type, default, bounds and the docstring under a field are all there is to write. Flag, environment name, YAML path,
help and reference page are derived from `schema.json`, which the repository's `make manifests` writes from here.

    field                     flag                      environment                   YAML path
    cache.block_tokens        --cache.block-tokens      INFER_CACHE__BLOCK_TOKENS     cache.block_tokens
                              --block-size  (its `flags`, what people type most)

Options of a plugin are not fields: `attention.NAME.option` is split off by `infer.config.load` before validation and
kept raw in `plugin_options`; the plugin's own options class validates it when the plugin is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from infer.config.sizes import parse_size
from infer_api.errors import ConfigError

__all__ = [
    "AttentionConfig",
    "CacheConfig",
    "ExecutorConfig",
    "InferConfig",
    "LoadConfig",
    "LogitsProcessorsConfig",
    "ModelConfig",
    "ObservabilityConfig",
    "OpsConfig",
    "ParallelConfig",
    "PlatformConfig",
    "PluginsConfig",
    "QuantizationConfig",
    "RoutesConfig",
    "SchedulerConfig",
    "Section",
    "ServerConfig",
    "SourcesConfig",
    "TokenizerConfig",
]

Size = Annotated[int, Field(gt=0, json_schema_extra={"format": "bytes"}), BeforeValidator(parse_size)]
"""Bytes; text such as "2GiB" is accepted."""


def said(*flags: str, common: bool = False, **extra: Any) -> Any:
    """Field facts that are not types: short `flags`, whether plain help shows the option, `env` aliases, `secret`."""
    return Field(json_schema_extra={"flags": list(flags), "common": common, **extra})


class Section(BaseModel):
    """A group of options: frozen, closed, documented by the docstring under each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, protected_namespaces=())


class ModelConfig(Section):
    """What is served, and under which names."""

    name: Annotated[str, said("--model", common=True)] = "auto"
    """Model folder, model file, alias, or a name that an installed source serves; 'auto' is the default alias."""
    served_names: Annotated[tuple[str, ...], said("--served-model-name", common=True)] = ()
    """Names that clients may use; the first is the one in replies. Unset: derived from the model's name."""
    tokenizer: Annotated[str | None, said("--tokenizer")] = None
    """Model folder, tokenizer.json, or model file whose tokenizer is used instead of the model's own."""
    max_model_len: Annotated[int | None, Field(gt=0), said("--max-model-len", common=True)] = None
    """Longest prompt plus answer in tokens. Unset: what the model was trained for."""
    dtype: Annotated[Literal["auto", "float32", "bfloat16", "float16"], said("--dtype", common=True)] = "auto"
    """Type of activations and unquantized weights; 'auto' takes the best one the platform supports."""
    chat_template: Annotated[str | None, said("--chat-template")] = None
    """File with a Jinja chat template, used instead of the model's own."""
    seed: Annotated[int | None, Field(ge=0, lt=2**63), said("--seed")] = None
    """Seed for requests that bring none. Unset: every such request draws its own."""


class LoadConfig(Section):
    """How model files are read, and where they are kept."""

    name: Annotated[str, said("--load-format")] = "auto"
    """Loader plugin that opens the model files."""
    home: Annotated[str, said("--download-dir", env=["INFER_HOME"])] = "~/.cache/infer"
    """Folder that keeps fetched models."""


class SourcesConfig(Section):
    """Where models that are not on this machine come from."""

    name: Annotated[str, said()] = "auto"
    """Source that fetches models; 'auto' goes by the model's name."""


class CacheConfig(Section):
    """The KV cache."""

    block_tokens: Annotated[int, Field(gt=0, multiple_of=8, le=1024), said("--block-size")] = 16
    """Tokens held by one KV block."""
    kv_cache_memory: Annotated[Size | None, said("--kv-cache-memory", "--kv-cache-memory-bytes", common=True)] = None
    """Memory for the KV cache, in bytes or as '2GiB'. Unset: a fraction of free memory."""
    memory_fraction: Annotated[float | None, Field(gt=0, le=1), said("--gpu-memory-utilization")] = None
    """Share of free device memory that the KV cache takes. Unset: the platform's default."""
    prefix_caching: Annotated[bool, said("--enable-prefix-caching", common=True)] = True
    """Keep the KV of prompts and answers, and use it again where a later prompt begins alike."""


class SchedulerConfig(Section):
    """Which requests run together."""

    name: Annotated[str, said("--scheduling-policy", common=True)] = "auto"
    """Policy plugin: who is admitted first, and who gives way when the KV cache is full."""
    max_num_seqs: Annotated[int, Field(gt=0), said("--max-num-seqs", common=True)] = 64
    """Most sequences in one step."""
    max_num_batched_tokens: Annotated[int, Field(gt=0), said("--max-num-batched-tokens", common=True)] = 2048
    """Most tokens in one step, prompt chunks and decoded tokens together."""
    max_waiting: Annotated[int, Field(ge=0), said("--max-waiting", common=True)] = 4096
    """Most sequences that wait for a place; further ones are refused with 503 and Retry-After."""
    max_prefill_delay_ms: Annotated[float, Field(ge=0), said("--max-prefill-delay", common=True)] = 250.0
    """Longest that a step with prompts shall take while others are being answered, in milliseconds; prompts are cut
    into chunks accordingly. 0: no bound but the tokens of a step."""


class ParallelConfig(Section):
    """Processes."""

    engine_process: Annotated[Literal["auto", "inline", "separate"], said("--engine-process")] = "auto"
    """Where the engine runs: in the serving process ('inline') or in one of its own ('separate')."""
    on_engine_death: Annotated[Literal["exit", "restart"], said("--on-engine-death", common=True)] = "exit"
    """When the engine stops by itself: end the server with a non-zero status, or start the engine again."""
    engine_silence_s: Annotated[float, Field(gt=0), said()] = 2.0
    """Seconds without a sign of life after which an engine in a process of its own counts as not ready."""
    engine_kill_s: Annotated[float, Field(gt=0), said()] = 8.0
    """Seconds without a sign of life after which such an engine counts as dead: it is killed, its requests fail."""
    step_timeout_s: Annotated[float, Field(gt=0), said()] = 120.0
    """Seconds that one step may take before the engine counts as stuck: not ready, and dead after twice as many."""
    max_restarts: Annotated[int, Field(ge=0), said()] = 3
    """Restarts within ten minutes after which the server ends instead of starting the engine once more."""


class PlatformConfig(Section):
    """The device that computes."""

    name: Annotated[str, said("--platform", common=True)] = "auto"
    """Platform plugin."""


class AttentionConfig(Section):
    """The attention backend."""

    name: Annotated[str, said("--attention-backend", common=True)] = "auto"
    """Attention plugin."""


class QuantizationConfig(Section):
    """How quantized weights are read and multiplied."""

    name: Annotated[str, said("--quantization", "-q", common=True)] = "auto"
    """Quantization plugin."""


class TokenizerConfig(Section):
    """The library that turns text into tokens."""

    name: Annotated[str, said("--tokenizer-backend")] = "auto"
    """Tokenizer plugin."""


class OpsConfig(Section):
    """Compiled kernels; each call site takes the best offer."""


class LogitsProcessorsConfig(Section):
    """Code of plugins that changes scores before a token is drawn, for requests that ask for it."""

    enabled: Annotated[tuple[str, ...], said()] = ("auto",)
    """Processors that requests may use; 'auto' are ours and those of listed distributions."""


class ExecutorConfig(Section):
    """Where workers live."""

    name: Annotated[str, said("--executor", "--distributed-executor-backend")] = "auto"
    """Executor plugin."""


class RoutesConfig(Section):
    """HTTP routes that plugins bring."""


class ObservabilityConfig(Section):
    """What infer tells about itself."""

    log_level: Annotated[Literal["debug", "info", "warning", "error"], said("--log-level")] = "info"
    """Least severe messages that are logged to standard error."""
    log_format: Annotated[Literal["text", "json"], said("--log-format")] = "text"
    """How messages are written: for people, or one JSON object a line."""


class ServerConfig(Section):
    """The HTTP side: address, keys, and what one request may ask for."""

    host: Annotated[str, said("--host", common=True)] = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every interface."""
    port: Annotated[int, Field(ge=0, le=65535), said("--port", common=True)] = 8000
    """TCP port; 0 takes a free one."""
    api_keys: Annotated[tuple[str, ...], said("--api-key", env=["INFER_API_KEY"], common=True, secret=True)] = ()
    """Keys that clients must send one of. None: no key is asked for."""
    api_key_file: Annotated[str | None, said("--api-key-file")] = None
    """File with one more key a line."""
    allowed_origins: Annotated[tuple[str, ...], said("--allowed-origins")] = ()
    """Web origins whose pages may call the server from a browser ('*' = any)."""
    docs: Annotated[bool, said("--docs")] = True
    """Serve pages about the API at /docs, without anything from other hosts."""
    tls_certificate: Annotated[str | None, said("--ssl-certfile")] = None
    """File with the certificate chain (PEM); with it the server speaks HTTPS only."""
    tls_key: Annotated[str | None, said("--ssl-keyfile")] = None
    """File with the certificate's private key (PEM)."""
    max_connections: Annotated[int, Field(gt=0), said()] = 4096
    """Most open connections; further ones are closed at once."""
    max_requests: Annotated[int, Field(gt=0), said("--max-concurrent-requests")] = 2048
    """Most requests worked on at once; further ones are refused with 503 and Retry-After."""
    header_timeout_s: Annotated[float, Field(gt=0), said()] = 10.0
    """Seconds for the headers of a request to arrive, from the first byte (on a new connection: from its start)."""
    body_timeout_s: Annotated[float, Field(gt=0), said()] = 30.0
    """Seconds for the body of a request to arrive."""
    idle_timeout_s: Annotated[float, Field(gt=0), said()] = 75.0
    """Seconds that a connection may stay open between requests."""
    write_timeout_s: Annotated[float, Field(gt=0), said()] = 60.0
    """Seconds that a client may leave an answer unread before it is cut off."""
    max_header_bytes: Annotated[Size, said()] = 64 * 2**10
    """Largest request line and headers together."""
    max_json_depth: Annotated[int, Field(gt=0, le=500), said()] = 100
    """Deepest nesting of arrays and objects in a body."""
    max_bad_words: Annotated[int, Field(ge=0), said()] = 32
    """Most 'bad_words' of one request."""
    max_token_ids: Annotated[int, Field(ge=0), said()] = 4096
    """Most ids in 'stop_token_ids' or 'allowed_token_ids' of one request."""
    max_body_bytes: Annotated[Size, said()] = 16 * 2**20
    """Largest request body."""
    max_n: Annotated[int, Field(gt=0), said()] = 128
    """Most choices ('n') of one request."""
    max_logprobs: Annotated[int, Field(ge=0), said("--max-logprobs")] = 20
    """Most alternatives per token in a logprobs report."""
    max_stop: Annotated[int, Field(ge=0), said()] = 64
    """Most stop strings of one request."""
    max_logit_bias: Annotated[int, Field(ge=0), said()] = 1024
    """Most tokens with a logit bias in one request."""
    max_prompts: Annotated[int, Field(gt=0), said()] = 256
    """Most prompts in one completion request."""
    max_prompt_tokens: Annotated[int | None, Field(gt=0), said()] = None
    """Longest prompt in tokens. Unset: what fits the model's length."""
    shutdown_timeout_s: Annotated[float, Field(ge=0), said()] = 10.0
    """Seconds that running requests get to finish when the server is told to stop."""


class PluginsConfig(Section):
    """Which installed plugins may be used."""

    disabled: Annotated[tuple[str, ...], said()] = ()
    """Plugins to leave alone: distributions, or 'kind:name'."""
    listed: Annotated[tuple[str, ...], said()] = ()
    """Third-party distributions that 'auto' may choose, and whose routes may be mounted."""
    prefer: Annotated[Mapping[str, str], said()] = Field(default_factory=dict)
    """Which distribution a name means when two offer it: 'kind:name=distribution'."""
    on_incompatible: Annotated[Literal["skip", "error"], said()] = "skip"
    """Whether an installed plugin that cannot run here is skipped, or ends the start."""


def kind(name: str) -> Any:
    """Marks a group as that of plugin kind `name`: its sub-keys are options of those plugins."""
    return Field(json_schema_extra={"kind": name})


class InferConfig(Section):
    """The whole configuration. Frozen; `replace` gives a changed copy."""

    model: Annotated[ModelConfig, kind("models")] = ModelConfig()
    load: Annotated[LoadConfig, kind("loaders")] = LoadConfig()
    sources: Annotated[SourcesConfig, kind("model_sources")] = SourcesConfig()
    cache: CacheConfig = CacheConfig()
    scheduler: Annotated[SchedulerConfig, kind("schedulers")] = SchedulerConfig()
    parallel: ParallelConfig = ParallelConfig()
    platform: Annotated[PlatformConfig, kind("platforms")] = PlatformConfig()
    attention: Annotated[AttentionConfig, kind("attention")] = AttentionConfig()
    quantization: Annotated[QuantizationConfig, kind("quantization")] = QuantizationConfig()
    tokenizer: Annotated[TokenizerConfig, kind("tokenizers")] = TokenizerConfig()
    ops: Annotated[OpsConfig, kind("ops")] = OpsConfig()
    logits_processors: Annotated[LogitsProcessorsConfig, kind("logits_processors")] = LogitsProcessorsConfig()
    executor: Annotated[ExecutorConfig, kind("executors")] = ExecutorConfig()
    routes: Annotated[RoutesConfig, kind("routes")] = RoutesConfig()
    observability: ObservabilityConfig = ObservabilityConfig()
    server: ServerConfig = ServerConfig()
    plugins: PluginsConfig = PluginsConfig()
    plugin_options: Mapping[str, Mapping[str, dict[str, Any]]] = Field(default_factory=dict)
    """Raw options of plugins: {kind: {plugin: {option: value}}}."""

    def options(self, kind: str, name: str) -> dict[str, Any]:
        """Raw options that the user gave plugin `name` of `kind` (plural, as in the entry-point group)."""
        return dict(self.plugin_options.get(kind, {}).get(name, {}))

    def replace(self, **groups: Mapping[str, Any]) -> InferConfig:
        """A validated copy with some fields changed: `config.replace(cache={"block_tokens": 32})`.

        Raises ConfigError for a value out of bounds or an unknown name.
        """
        data = self.model_dump()
        for group, fields in groups.items():
            data[group] = {**data.get(group, {}), **fields}
        return self.validated(data)

    @classmethod
    def validated(cls, data: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> InferConfig:
        """The configuration made of plain `data` {group: {field: value}}.

        `sources` tells where a value came from, by path, for messages. Raises ConfigError, one line, naming the first
        wrong path and its source.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            known = (sources or {}).items()
            source = next((where for key, where in known if path == key or path.startswith(f"{key}.")), "")
            origin = f" (from {source})" if source else ""
            raise ConfigError(f"{path}{origin}: {first['msg']}, found {first['input']!r}") from None
