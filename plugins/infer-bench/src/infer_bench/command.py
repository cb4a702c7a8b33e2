"""`infer bench throughput` and `infer bench latency`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from infer_api.commands import CommandContext
from infer_bench.contenders import BatchContender, InferBatch, InferStream, StreamContender
from infer_bench.latency import measure_latency
from infer_bench.options import BenchOptions
from infer_bench.peer import TransformersPeer, peer_folder
from infer_bench.report import check_writable, facts, table, write_json
from infer_bench.results import Results
from infer_bench.throughput import measure_throughput
from infer_bench.workload import Workload

__all__ = ["BenchCommand"]

PROMPTS_AT_ONCE = 32
PROMPTS_IN_TURN = 4


class BenchCommand:
    """The command. The table goes to standard output, progress to standard error."""

    def run(self, context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
        """Always 0; what goes wrong is raised. Raises ConfigError before loading for what can be known then."""
        check_writable(options.json_file)
        if options.against is not None:
            peer_folder(context.config.model.name)
        kind = arguments["subcommand"]
        measure = {"throughput": _throughput, "latency": _latency}[kind]
        workload, results = measure(context, options)
        shown = f"{workload.num_prompts} x ({workload.input_len} in + {workload.output_len} out)"
        title = f"{kind} of {context.config.model.name}: {shown}, median of {options.repeat}"
        sys.stdout.write(table(title, results))
        if options.json_file is not None:
            about = facts(kind, context.config, workload, warmup=options.warmup, repeat=options.repeat)
            write_json(options.json_file, about, results)
            context.say(f"written to {options.json_file}")
        return 0


def _throughput(context: CommandContext, options: BenchOptions) -> tuple[Workload, Results]:
    with _rivals(context, options) as rivals, closing(InferBatch(context)) as ours:
        workload = Workload.of(options, ours.vocab_size, num_prompts=PROMPTS_AT_ONCE)
        contenders: list[BatchContender] = [ours, *rivals]
        return workload, measure_throughput(
            contenders, workload, warmup=options.warmup, repeat=options.repeat, say=context.say
        )


def _latency(context: CommandContext, options: BenchOptions) -> tuple[Workload, Results]:
    with _rivals(context, options) as rivals, closing(InferStream(context)) as ours:
        workload = Workload.of(options, ours.vocab_size, num_prompts=PROMPTS_IN_TURN)
        contenders: list[StreamContender] = [ours, *rivals]
        return workload, measure_latency(
            contenders, workload, warmup=options.warmup, repeat=options.repeat, say=context.say
        )


@contextmanager
def _rivals(context: CommandContext, options: BenchOptions) -> Iterator[list[TransformersPeer]]:
    """The rivals that were asked for, closed at the end."""
    if options.against is None:
        yield []
        return
    with closing(TransformersPeer(peer_folder(context.config.model.name))) as peer:
        yield [peer]
