"""`infer bench serve`: a load on one server, or on two in turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

from infer_api.commands import CommandContext
from infer_api.errors import ConfigError, InferError
from infer_bench.arrivals import arrival_times, parse_rate
from infer_bench.client import StreamClient
from infer_bench.drive import Load, run_load
from infer_bench.figures import details, load_metrics, summarize
from infer_bench.goodput import parse_limits
from infer_bench.options import BenchOptions
from infer_bench.progress import request_progress
from infer_bench.prompts import IdWriter, Prompt, WordWriter, Writer, make_prompts
from infer_bench.results import Results
from infer_bench.server import infer_program, own_server
from infer_bench.target import Target, find_counter, learn, open_session

__all__ = ["DEFAULT_PROMPTS", "Measured", "check_load", "measure", "targets"]

DEFAULT_PROMPTS = 100


@dataclass(frozen=True)
class Measured:
    """What a measurement gave: figures of every round, and what is no figure, for each round and target."""

    targets: tuple[Target, ...]
    results: Results
    rounds: tuple[dict[str, Any], ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for files."""
        return {
            "targets": [target.facts() for target in self.targets],
            **self.results.to_dict(),
            "rounds": list(self.rounds),
        }


def check_load(context: CommandContext, arguments: Any, options: BenchOptions) -> None:
    """Raise ConfigError for whatever is known to be wrong before anything is started."""
    parse_limits(options.goodput)
    parse_rate(options.request_rate)
    if any(not 0 <= share <= 100 for share in options.percentiles):
        raise ConfigError(f"--percentiles must be from 0 to 100, found {options.percentiles}")
    if options.base_url and arguments.get("model"):
        raise ConfigError(f"MODEL {arguments['model']!r} is for a server of our own; with --base-url: --served-model")
    if options.prompt_ids and (options.endpoint != "/v1/completions" or options.dataset == "sharegpt"):
        raise ConfigError("--prompt-ids is for random and shared-prefix prompts to /v1/completions")
    if (options.dataset == "sharegpt") != (options.dataset_path is not None):
        raise ConfigError("--dataset sharegpt and --dataset-path FILE belong together")


@contextmanager
def targets(context: CommandContext, options: BenchOptions, more_flags: Sequence[str] = ()) -> Iterator[list[Target]]:
    """The servers to measure; one of our own, started with `more_flags`, when no address was given."""
    keys = context.config.server.api_keys
    common = {"api_key": keys[0] if keys else None, "vocab_size": options.vocab_size}
    peers = []
    if options.peer_url:
        peers = [Target.at("peer", options.peer_url, options.endpoint, model=options.peer_model, **common)]
    if options.base_url:
        yield [Target.at("server", options.base_url, options.endpoint, model=options.served_model, **common), *peers]
        return
    with own_server(context.config, infer_program(), more_flags) as server:
        context.say(f"starting infer serve {context.config.model.name} {' '.join(more_flags)}".rstrip())
        server.wait_for("/ready", options.ready_timeout)
        ours = Target.at("infer", server.url, options.endpoint, model=options.served_model, **common)
        yield [replace(ours, command=server.command), *peers]


def measure(options: BenchOptions, found: Sequence[Target], repeat: int, say: Callable[[str], None]) -> Measured:
    """Put the load on each target in turn, `repeat` times. Raises InferError when warm-up requests fail."""
    return asyncio.run(_measure(options, found, repeat, say))


async def _measure(options: BenchOptions, found: Sequence[Target], repeat: int, say: Callable[[str], None]) -> Measured:
    extra: dict[str, Any] = {"temperature": options.temperature}
    if options.ignore_eos:
        extra["ignore_eos"] = True
    async with AsyncExitStack() as stack:
        clients = []
        for target in found:
            session = await stack.enter_async_context(open_session(target, options.request_timeout))
            clients.append(StreamClient(session, await learn(target, session, options.ready_timeout), extra))
        writer = await _writer(options, clients[0], say)
        limits = parse_limits(options.goodput)
        metrics = load_metrics(options.percentiles, with_goodput=bool(limits))
        results = Results(metrics, [client.target.name for client in clients])
        rounds = []
        for run in range(repeat):
            warmups = await make_prompts(options, writer, options.num_warmups, -1 - run)
            prompts = await make_prompts(options, writer, options.num_prompts or DEFAULT_PROMPTS, run)
            # The order alternates, so that neither target always finds the machine as the other left it.
            for client in clients if run % 2 == 0 else reversed(clients):
                await _warm_up(options, client, warmups)
                load = await _round(options, client, prompts, run, f"round {run + 1} of {repeat}, {client.target.name}")
                results.add(client.target.name, summarize(load, options.percentiles, limits))
                told = details(load, with_requests=options.save_detailed)
                rounds.append({"round": run, "target": client.target.name, **told})
        return Measured(tuple(client.target for client in clients), results, tuple(rounds))


async def _writer(options: BenchOptions, client: StreamClient, say: Callable[[str], None]) -> Writer:
    if options.prompt_ids:
        if client.target.vocab_size is None:
            raise ConfigError(f"{client.target.base_url} does not tell its vocabulary: add --vocab-size N")
        return IdWriter(client.target.vocab_size)
    counter = await find_counter(client.target, client.session)
    if counter is None:
        say(f"{client.target.base_url} has no /tokenize: lengths of prompts are about, not exactly, those asked for")
    return WordWriter(counter)


async def _warm_up(options: BenchOptions, client: StreamClient, prompts: Sequence[Prompt]) -> None:
    if not prompts:
        return
    load = await run_load(client, prompts, [0.0] * len(prompts), max_concurrency=options.max_concurrency)
    failed = next((record for record in load.records if not record.is_ok), None)
    if failed is not None:
        url = f"{client.target.base_url}{client.target.endpoint}"
        raise InferError(f"a warm-up request to {url} failed: {failed.error}: {failed.detail}")


async def _round(options: BenchOptions, client: StreamClient, prompts: Sequence[Prompt], run: int, label: str) -> Load:
    arrivals = arrival_times(len(prompts), parse_rate(options.request_rate), options.burstiness, options.seed + run)
    with request_progress(label, len(prompts)) as tell:
        return await run_load(client, prompts, arrivals, max_concurrency=options.max_concurrency, tell=tell)
