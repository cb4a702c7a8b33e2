"""`infer bench throughput` and `infer bench latency`: infer in this process, alone or against a rival."""

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
from infer_bench.report import facts, table, write_json
from infer_bench.results import Results
from infer_bench.throughput import measure_throughput
from infer_bench.workload import Workload

__all__ = ["run_offline"]

PROMPTS_AT_ONCE = 32
PROMPTS_IN_TURN = 4
DEFAULT_REPEAT = 3


def run_offline(context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
    """Measure, print and write. Raises ConfigError before loading for what can be known then."""
    if options.against is not None:
        peer_folder(context.config.model.name)
    kind, repeat = arguments["subcommand"], options.repeat or DEFAULT_REPEAT
    workload, results = {"throughput": _throughput, "latency": _latency}[kind](context, options, repeat)
    shown = f"{workload.num_prompts} x ({workload.input_len} in + {workload.output_len} out)"
    title = f"{kind} of {context.config.model.name}: {shown}, median of {repeat}"
    sys.stdout.write(table(title, results))
    if options.json_file is not None:
        about = facts(kind, context.config, workload, warmup=options.warmup, repeat=repeat)
        write_json(options.json_file, about | results.to_dict())
        context.say(f"written to {options.json_file}")
    return 0


def _throughput(context: CommandContext, options: BenchOptions, repeat: int) -> tuple[Workload, Results]:
    with _rivals(context, options) as rivals, closing(InferBatch(context)) as ours:
        workload = Workload.of(options, ours.vocab_size, num_prompts=PROMPTS_AT_ONCE)
        contenders: list[BatchContender] = [ours, *rivals]
        return workload, measure_throughput(contenders, workload, warmup=options.warmup, repeat=repeat, say=context.say)


def _latency(context: CommandContext, options: BenchOptions, repeat: int) -> tuple[Workload, Results]:
    with _rivals(context, options) as rivals, closing(InferStream(context)) as ours:
        workload = Workload.of(options, ours.vocab_size, num_prompts=PROMPTS_IN_TURN)
        contenders: list[StreamContender] = [ours, *rivals]
        return workload, measure_latency(contenders, workload, warmup=options.warmup, repeat=repeat, say=context.say)


@contextmanager
def _rivals(context: CommandContext, options: BenchOptions) -> Iterator[list[TransformersPeer]]:
    """The rivals that were asked for, closed at the end."""
    if options.against is None:
        yield []
        return
    with closing(TransformersPeer(peer_folder(context.config.model.name))) as peer:
        yield [peer]
