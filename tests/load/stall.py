"""How long running streams stand still while a prompt of 4,000 tokens arrives amid them.

    python tests/load/stall.py [--model smollm2] [--delays 0 250 100] [--streams 4] [--prompt-tokens 4000]
                               [--repeat 1] [--json FILE] [-- flags of `infer serve`]

For each value of --max-prefill-delay a server is started; streams run, the long prompt comes, is answered, and the
streams go on. Prints the largest and the median gap between two events of one stream before, during and after, in
milliseconds, and the time to the first token of the long prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tools_path  # noqa: F401
from served import serving
from wire import Address, Connection, post, request_bytes

__all__ = ["Stall", "first_token_s", "main", "measure_stall", "random_ids"]

SETTLE_S = 3.0


@dataclass(frozen=True)
class Stall:
    """Gaps in milliseconds: (largest, median) by phase; seconds to the long prompt's first token."""

    delay_ms: float
    before: tuple[float, float]
    during: tuple[float, float]
    after: tuple[float, float]
    first_token_s: float


def random_ids(rng: random.Random, count: int, low: int = 1000, high: int = 30_000) -> list[int]:
    """Token ids that nobody has sent before."""
    return [rng.randrange(low, high) for _ in range(count)]


async def first_token_s(address: Address, prompt_ids: list[int]) -> float:
    """Seconds from sending a prompt to the first token of its streamed answer."""
    body = {"prompt": prompt_ids, "max_tokens": 1, "temperature": 0, "ignore_eos": True, "stream": True}
    started = time.perf_counter()
    async with Connection(address) as connection:
        await connection.send(request_bytes("POST", "/v1/completions", json.dumps(body).encode()))
        head = await connection.head()
        assert head.status == 200, head
        async for _ in connection.events(head):
            return time.perf_counter() - started
    raise AssertionError("no event came")


async def _listen(address: Address, prompt_ids: list[int], times: list[float], stop: asyncio.Event) -> None:
    """Note when the events of one stream come, until told to leave."""
    body = {"prompt": prompt_ids, "max_tokens": 3000, "temperature": 0, "ignore_eos": True, "stream": True}
    async with Connection(address) as connection:
        await connection.send(request_bytes("POST", "/v1/completions", json.dumps(body).encode()))
        head = await connection.head()
        assert head.status == 200, head
        async for event in connection.events(head):
            if stop.is_set():
                return
            assert '"error"' not in event, event
            times.append(time.perf_counter())
    raise AssertionError("the stream ended before the measurement did")


async def measure_stall(
    address: Address, delay_ms: float, *, streams: int, prompt_tokens: int, seed: int, settle_s: float = SETTLE_S
) -> Stall:
    """One long prompt amid `streams` streams."""
    rng, stop = random.Random(seed), asyncio.Event()
    await post(address, "/v1/completions", {"prompt": random_ids(rng, 64), "max_tokens": 4}, 300)  # wakes everything up
    times: list[list[float]] = [[] for _ in range(streams)]
    async with asyncio.TaskGroup() as group:
        for each in times:
            group.create_task(_listen(address, random_ids(rng, 32), each, stop))
        while any(len(each) < 5 for each in times):
            await asyncio.sleep(0.05)
        begun = time.perf_counter()
        await asyncio.sleep(settle_s)
        sent = time.perf_counter()
        took = await first_token_s(address, random_ids(rng, prompt_tokens))
        answered = time.perf_counter()
        await asyncio.sleep(settle_s)
        stop.set()
    ended = time.perf_counter()
    phases = [_gaps(times, *phase) for phase in ((begun, sent), (sent, answered), (answered, ended))]
    return Stall(delay_ms, phases[0], phases[1], phases[2], took)


def _gaps(times: Sequence[Sequence[float]], start: float, end: float) -> tuple[float, float]:
    """A gap belongs to the phase in which it ended."""
    gaps = [(b - a) * 1000 for each in times for a, b in zip(each, each[1:], strict=False) if start < b <= end]
    return (max(gaps), statistics.median(gaps)) if gaps else (float("nan"), float("nan"))


def table(stalls: Sequence[Stall]) -> str:
    lines = ["max-prefill-delay   before max/med    during max/med     after max/med   first token of the long prompt"]
    for stall in stalls:
        cells = [f"{largest:8.0f} /{median:6.0f}" for largest, median in (stall.before, stall.during, stall.after)]
        lines.append(f"{stall.delay_ms:14.0f} ms  {'  '.join(cells)}   {stall.first_token_s:8.2f} s")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--delays", type=float, nargs="+", default=[0, 250, 100])
    parser.add_argument("--streams", type=int, default=4)
    parser.add_argument("--prompt-tokens", type=int, default=4000)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--infer", type=Path, default=Path(sys.executable).with_name("infer"))
    parser.add_argument("--home", type=Path, help="folder of fetched models (INFER_HOME)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="more flags of `infer serve`, after --")
    options = parser.parse_args()
    stalls = []
    for delay in options.delays:
        sizes = [
            "--max-model-len",
            "8192",
            "--kv-cache-memory",
            "1GiB",
            "--max-prefill-delay",
            str(delay),
            *options.flags,
        ]
        with (
            tempfile.TemporaryDirectory() as folder,
            serving(options.infer, [options.model], Path(folder), sizes=sizes, home=options.home) as served,
        ):
            for seed in range(options.repeat):
                address = Address.of(served.url)
                facts = {"streams": options.streams, "prompt_tokens": options.prompt_tokens}
                stalls.append(asyncio.run(measure_stall(address, delay, **facts, seed=seed)))
    print(table(stalls))
    if options.json:
        options.json.write_text(json.dumps([vars(stall) for stall in stalls], indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
