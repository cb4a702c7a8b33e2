"""What a step costs the host: plan, submit, take in, hand out, with a worker that does nothing.

    python tests/load/scheduler_cost.py [--rows 1 32 256 1024] [--steps 400] [--in-flight 1] [--no-prefix-caching]
                                        [--json FILE]

Each number of running requests is measured in two mixes: `decode` (every row draws one token a step) and `churn` (each
step, 1 in 64 rows ends and a new request with a prompt of 64 tokens takes its place). Prints medians in microseconds
per step, per row, the slope from one size to the next, and the 99th percentile. Exit status 1 when the median at 256
running requests is 1 ms or more.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer.engine.core import Engine, EngineRules
from infer.kv.groups import KVGeometry, form_groups
from infer.scheduler.scheduler import SchedulerLimits
from infer_api.executors import WorkerSpec
from infer_api.requests import EngineRequest, SamplingParams
from infer_api.specs import KVSpec, KVTensor
from infer_api.steps import SampledRow, SampleInputs, StepPlan, StepResult
from infer_schedulers.policies import FirstComeFirstServed

__all__ = ["Cost", "IdleExecutor", "main", "measure"]

BLOCK_TOKENS = 16
PROMPT_TOKENS = 64
MAX_LEN = 4096
LIMIT_US = 1000.0


class IdleExecutor:
    """Draws token 1 for every row that samples, at no cost."""

    def start(self, spec: WorkerSpec) -> None: ...

    def forward(self, plan: StepPlan) -> StepPlan:
        return plan

    def sample(self, handle: StepPlan, inputs: SampleInputs) -> Future[StepResult]:
        future: Future[StepResult] = Future()
        rows = [SampledRow(row.slot, [1]) for row in handle.rows if row.samples]
        future.set_result(StepResult(step_id=inputs.step_id, rows=rows))
        return future

    def call(self, method: str, *args: Any, ranks: Sequence[int] | None = None) -> list[Any]:
        raise AssertionError(f"nobody asks {method} here")

    def health(self) -> str | None:
        return None

    def shutdown(self) -> None: ...


@dataclass(frozen=True)
class Cost:
    """Of one mix at one size; microseconds."""

    rows: int
    mix: str
    median_us: float
    p99_us: float

    @property
    def us_per_row(self) -> float:
        return self.median_us / self.rows


def make_engine(rows: int, *, in_flight: int, prefix_caching: bool) -> Engine:
    groups = form_groups({"layer": KVSpec((KVTensor("k", 1, 8),))}, BLOCK_TOKENS)
    num_blocks = 2 + rows * (MAX_LEN // BLOCK_TOKENS)
    geometry = KVGeometry(groups, num_blocks, BLOCK_TOKENS, PROMPT_TOKENS)
    limits = SchedulerLimits(rows, rows + 16 * PROMPT_TOKENS, MAX_LEN)
    rules = EngineRules(in_flight=in_flight, max_waiting=rows + 64, prefix_caching=prefix_caching)
    return Engine(IdleExecutor(), geometry, limits, FirstComeFirstServed(None), rules)


def measure(
    rows: int, mix: str, *, steps: int = 400, in_flight: int = 1, prefix_caching: bool = True, warm_up: int = 50
) -> Cost:
    """Fill an engine with `rows` running requests and time `steps` steps; adding and aborting count as well."""
    rng = random.Random(rows)
    engine = make_engine(rows, in_flight=in_flight, prefix_caching=prefix_caching)
    live = [_request(rng, number) for number in range(rows)]
    for request in live:
        engine.add(request)
    answered: set[str] = set()
    while len(answered) < rows:
        answered.update(output.request_id for output in engine.step())
    changes = max(1, rows // 64) if mix == "churn" else 0
    times = []
    for number in range(warm_up + steps):
        leaving = [live.pop(rng.randrange(len(live))).request_id for _ in range(changes)]
        coming = [_request(rng, rows + number * changes + each) for each in range(changes)]
        live += coming
        started = time.perf_counter()
        if leaving:
            engine.abort(leaving)
        for request in coming:
            engine.add(request)
        engine.step()
        if number >= warm_up:
            times.append((time.perf_counter() - started) * 1e6)
    return Cost(rows, mix, statistics.median(times), sorted(times)[int(len(times) * 0.99)])


def _request(rng: random.Random, number: int) -> EngineRequest:
    prompt = [rng.randrange(30_000) for _ in range(PROMPT_TOKENS)]
    sampling = SamplingParams(max_tokens=MAX_LEN)
    return EngineRequest(request_id=f"r{number}", prompt_ids=prompt, sampling=sampling, vocab_size=32_000)


def table(costs: Sequence[Cost]) -> str:
    """Readable; slopes are between neighbouring sizes of one mix."""
    lines = [f"{'mix':8}{'rows':>6}{'µs/step':>10}{'µs/row':>9}{'slope µs/row':>14}{'p99 µs':>10}"]
    before: dict[str, Cost] = {}
    for cost in costs:
        last = before.get(cost.mix)
        slope = f"{(cost.median_us - last.median_us) / (cost.rows - last.rows):.2f}" if last else "-"
        lines.append(
            f"{cost.mix:8}{cost.rows:6}{cost.median_us:10.1f}{cost.us_per_row:9.2f}{slope:>14}{cost.p99_us:10.1f}"
        )
        before[cost.mix] = cost
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 32, 256, 1024])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--in-flight", type=int, default=1)
    parser.add_argument("--no-prefix-caching", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    gc.collect()
    costs = [
        measure(
            rows,
            mix,
            steps=options.steps,
            in_flight=options.in_flight,
            prefix_caching=not options.no_prefix_caching,
        )
        for mix in ("decode", "churn")
        for rows in sorted(options.rows)
    ]
    print(table(costs))
    if options.json:
        data = [{**vars(cost), "us_per_row": cost.us_per_row} for cost in costs]
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(cost.rows == 256 and cost.median_us >= LIMIT_US for cost in costs))


if __name__ == "__main__":
    main()
