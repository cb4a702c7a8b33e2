"""What a benchmark runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from infer_api.errors import ConfigError
from infer_api.options import Options

__all__ = ["BenchOptions", "Only", "check_used", "plain"]


class Only:
    """Which subcommands a flag is for, and short spellings of it. Its help begins with them."""

    def __init__(self, *subcommands: str, flags: tuple[str, ...] = ()) -> None:
        self.subcommands = subcommands
        self.flags = flags

    def __call__(self, schema: dict[str, Any]) -> None:
        """Called by pydantic with the field's JSON schema."""
        schema["description"] = f"{', '.join(self.subcommands)}: {schema['description']}"
        if self.flags:
            schema["flags"] = list(self.flags)


def only(*subcommands: str, flags: tuple[str, ...] = (), **facts: Any) -> Any:
    """A field for some subcommands only; `facts` are bounds as of pydantic's Field."""
    return Field(json_schema_extra=Only(*subcommands, flags=flags), **facts)


OFFLINE = ("throughput", "latency")
LOAD = ("serve", "sweep")


class BenchOptions(Options):
    """Flags of `infer bench`. Model, dtype, threads and cache are options of the configuration, as for `serve`."""

    model_config = ConfigDict(populate_by_name=True)

    # --- the workload ---
    input_len: Annotated[int, only(*OFFLINE, *LOAD, gt=0)] = 128
    """Tokens in each prompt (with shared-prefix: after the prefix). Prompts are random."""
    output_len: Annotated[int, only(*OFFLINE, *LOAD, gt=0)] = 64
    """Tokens to generate for each prompt; unset with sharegpt: as many as the answer in the file has."""
    num_prompts: Annotated[int | None, only(*OFFLINE, *LOAD, gt=0)] = None
    """Prompts in one run: all at once for throughput (default 32), one after another for latency (4), by the request
    rate for serve and sweep (100)."""
    seed: int = 0
    """Same seed, same prompts and arrivals."""
    warmup: Annotated[int, only(*OFFLINE, "startup", ge=0)] = 1
    """Runs that are not counted."""
    repeat: Annotated[int | None, Field(gt=0)] = None
    """Runs that are counted; results are their medians (default 3; for serve without --peer-url and sweep 1)."""
    json_file: Annotated[str | None, only(*OFFLINE, "serve", "startup", flags=("--output",), alias="json")] = None
    """File to write settings, every run and the medians to."""
    against: Annotated[Literal["transformers"] | None, only(*OFFLINE)] = None
    """Rival that runs in turn with infer on the same folder and prompts: transformers' generate, in float32."""

    # --- whom to ask ---
    base_url: Annotated[str | None, only(*LOAD)] = None
    """Server to measure, such as `http://127.0.0.1:8000`. Unset: an `infer serve MODEL` of the same configuration."""
    peer_url: Annotated[str | None, only("serve")] = None
    """Second server, measured in turn with the first one on the same load."""
    endpoint: Annotated[Literal["/v1/completions", "/v1/chat/completions"], only(*LOAD)] = "/v1/completions"
    """Path that requests go to."""
    served_model: Annotated[str | None, only(*LOAD)] = None
    """Model to ask for. Unset: the first one that the server lists."""
    peer_model: Annotated[str | None, only("serve")] = None
    """Model to ask the second server for. Unset: the first one that it lists."""
    ready_timeout: Annotated[float, only(*LOAD, "startup", gt=0)] = 600.0
    """Seconds to wait for a server to be ready."""
    request_timeout: Annotated[float, only(*LOAD, gt=0)] = 3600.0
    """Seconds after which a request counts as failed."""

    # --- what to ask ---
    dataset: Annotated[Literal["random", "shared-prefix", "sharegpt"], only(*LOAD)] = "random"
    """Where prompts come from."""
    dataset_path: Annotated[str | None, only(*LOAD)] = None
    """JSON file of conversations in ShareGPT's form, for sharegpt."""
    range_ratio: Annotated[float, only(*LOAD, ge=0, lt=1)] = 0.0
    """Lengths are drawn evenly from (1 - ratio) to (1 + ratio) times --input-len and --output-len."""
    prefix_len: Annotated[int, only(*LOAD, gt=0)] = 512
    """Tokens of each common prefix, for shared-prefix."""
    num_prefixes: Annotated[int, only(*LOAD, gt=0)] = 1
    """Different prefixes, for shared-prefix."""
    prompt_ids: Annotated[bool, only(*LOAD)] = False
    """Send token ids instead of words (completions only)."""
    vocab_size: Annotated[int | None, only(*LOAD, gt=0)] = None
    """Token ids are drawn below this number. Unset: what the server says in its list of models."""
    ignore_eos: Annotated[bool, only(*LOAD)] = False
    """Ask for the whole output length, past the end-of-sequence token."""
    temperature: Annotated[float, only(*LOAD, ge=0)] = 0.0
    """Sampling temperature of every request; 0 is greedy."""

    # --- how fast to ask ---
    request_rate: Annotated[str, only("serve")] = "inf"
    """Requests per second; inf sends all of them at once."""
    burstiness: Annotated[float, only(*LOAD, gt=0)] = 1.0
    """Shape of the gamma distribution of gaps between arrivals: 1 is a Poisson process, less is burstier."""
    max_concurrency: Annotated[int | None, only("serve", gt=0)] = None
    """Most requests under way at once; those that have arrived wait on the client's side, uncounted."""
    num_warmups: Annotated[int, only(*LOAD, ge=0)] = 1
    """Requests before each run that are not counted."""

    # --- what to tell ---
    goodput: Annotated[tuple[str, ...], only(*LOAD)] = ()
    """Limits in ms, such as ttft:200,tpot:50,e2el:5000; share and rate of requests that keep all of them are told."""
    percentiles: Annotated[tuple[float, ...], only(*LOAD)] = (50.0, 90.0, 99.0)
    """Percentiles to tell of each time."""
    save_detailed: Annotated[bool, only(*LOAD)] = False
    """Keep the figures of every request in the JSON file."""

    # --- sweeps ---
    request_rates: Annotated[tuple[str, ...], only("sweep")] = ()
    """Request rates to go through, such as 1,2,4,inf."""
    concurrencies: Annotated[tuple[int, ...], only("sweep")] = ()
    """Bounds of requests at once to go through, such as 1,2,4,8."""
    vary: Annotated[tuple[str, ...], only("sweep")] = ()
    """Server flag and its values, such as max-num-seqs=8,64; a server is started for each. Can be repeated."""
    output_dir: Annotated[str, only("sweep")] = "bench-sweep"
    """Folder for results; points that it has are not measured again."""
    overwrite: Annotated[bool, only("sweep")] = False
    """Measure points again that the folder has."""
    plots: Annotated[bool, only("sweep")] = True
    """Draw throughput against latency (PNG; needs infer-bench[plot])."""


def check_used(options: BenchOptions, subcommand: str) -> None:
    """Raise ConfigError when a flag was given that `subcommand` would not heed."""
    for name in sorted(options.model_fields_set):
        info: Any = BenchOptions.model_fields[name]
        extra = info.json_schema_extra
        if isinstance(extra, Only) and subcommand not in extra.subcommands:
            flag = f"--{(info.alias or name).replace('_', '-')}"
            raise ConfigError(
                f"{flag} is for {' and '.join(extra.subcommands)}; infer bench {subcommand} has no use for it"
            )


def plain(options: BenchOptions, subcommand: str) -> Mapping[str, Any]:
    """The options that `subcommand` heeds, as plain data for files."""
    fields: Any = BenchOptions.model_fields
    return {
        name: value
        for name, value in options.model_dump(mode="json").items()
        if not isinstance(fields[name].json_schema_extra, Only)
        or subcommand in fields[name].json_schema_extra.subcommands
    }
