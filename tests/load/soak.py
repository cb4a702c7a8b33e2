"""Hundreds of clients for minutes, half of whom leave: afterwards nothing is lost, leaked or wrong.

    python tests/load/soak.py --minutes 10 --clients 300 --rounds 3 [--json FILE]
                              [--model smollm2 | --model tiny | --url URL --pid PID] [-- flags of `infer serve`]

Clients send a mix of streamed and whole chat and completion requests with shared prefixes and several samplings. Half
of the requests are left at a random point (half sent, queued, in prefill, in mid-stream), 5 % are invalid. After each
round the server must be idle and clean, and hold as much memory as after the first. At the end, every answer that was
completed must equal the answer to the same request alone. Exit status 1 when anything is violated.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tools_path  # noqa: F401
from gauges import Metrics, read_metrics, resident_mib
from served import Served, serving
from tiny_llama import write_tiny_llama
from traffic import INVALID, Answer, Ask, Failed, ask_kinds, read_answer
from wire import Address, Connection, Gone, post, request_bytes

__all__ = ["Soak", "SoakPlan", "main"]

HANG_S = 180.0
IDLE_LIMIT_S = 10.0
MAX_GROWTH = 0.03
TINY_FLAGS = (
    *("--kv-cache-memory", "2MiB", "--platform.cpu.threads", "1"),
    *("--max-num-seqs", "32", "--max-num-batched-tokens", "128"),
)
TROUBLE = re.compile(r"Traceback|\b(ERROR|CRITICAL)\b|\"(error|critical)\"")


@dataclass(frozen=True)
class SoakPlan:
    """How long, how many, and the shares of rude and wrong requests."""

    seconds: float
    clients: int
    rounds: int
    num_kinds: int = 100
    leaving: float = 0.5
    invalid: float = 0.05
    think_s: float = 0.3
    seed: int = 1
    warm_up_s: float = 0.0
    """Load before the first round, in which caches of the allocator, of threads and of the interpreter fill."""


@dataclass
class Soak:
    """One soak of one server. `problems` are the violations so far."""

    address: Address
    plan: SoakPlan
    pids: Sequence[int] = ()
    prefix_words: Sequence[int] = (4, 20, 40)
    counts: Counter[str] = field(default_factory=Counter)
    answers: dict[str, Counter[Answer]] = field(default_factory=lambda: defaultdict(Counter))
    problems: list[str] = field(default_factory=list)
    resident: list[float] = field(default_factory=list)
    last_metrics: Metrics | None = None

    def __post_init__(self) -> None:
        self.kinds = ask_kinds(self.plan.num_kinds, self.plan.seed, self.prefix_words)

    async def run(self) -> None:
        """Warm-up, all rounds, then the solo runs."""
        if self.plan.warm_up_s:
            await self._load(-1, self.plan.warm_up_s)
        for number in range(self.plan.rounds):
            await self._load(number, self.plan.seconds / self.plan.rounds)
            await self._check_idle(number)
        await self._check_answers()
        self._check_memory()

    def summary(self) -> dict[str, Any]:
        """What happened, as plain data."""
        return {
            "clients": self.plan.clients,
            "seconds": self.plan.seconds,
            "requests": dict(sorted(self.counts.items())),
            "completed_kinds": len(self.answers),
            "resident_mib": [round(value, 1) for value in self.resident],
            "problems": self.problems,
        }

    async def _load(self, round_number: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        await asyncio.gather(*(self._client(round_number, index, deadline) for index in range(self.plan.clients)))

    # -- clients ------------------------------------------------------------------------------------------

    async def _client(self, round_number: int, index: int, deadline: float) -> None:
        rng = random.Random(f"{self.plan.seed}/{round_number}/{index}")
        while time.monotonic() < deadline:
            await asyncio.sleep(rng.random() * self.plan.think_s)
            draw = rng.random()
            kind = rng.choice(self.kinds)
            self.counts["sent"] += 1
            try:
                async with asyncio.timeout(HANG_S):
                    if draw < self.plan.invalid:
                        await self._be_wrong(rng)
                    elif draw < self.plan.invalid + self.plan.leaving:
                        await self._leave(rng, kind)
                    else:
                        await self._complete(rng, kind)
            except TimeoutError:
                self._blame(f"{kind.name}: no answer within {HANG_S:.0f} s")
            except Gone as error:
                self._blame(f"{kind.name}: {error}")
            except OSError as error:
                self._blame(f"{kind.name}: {error!r}")

    async def _complete(self, rng: random.Random, kind: Ask) -> None:
        stream = rng.random() < 0.6
        async with Connection(self.address) as connection:
            await connection.send(_bytes_of(kind, stream=stream))
            try:
                answer = await read_answer(connection, stream=stream)
            except Failed as error:
                if error.status != 503:
                    self._blame(f"{kind.name} failed: {error}")
                self.counts[f"failed with {error.status}"] += 1
                return
        self.counts["completed, streamed" if stream else "completed, whole"] += 1
        self.answers[kind.name][answer] += 1

    async def _leave(self, rng: random.Random, kind: Ask) -> None:
        stream, way = rng.random() < 0.6, rng.choice(("half sent", "at once", "after a while", "amid the answer"))
        data = _bytes_of(kind, stream=stream)
        async with Connection(self.address) as connection:
            if rng.random() < 0.3:
                connection.reset()
            if way == "half sent":
                await connection.send(data[: rng.randrange(1, len(data))])
            else:
                await connection.send(data)
            if way == "after a while":
                await asyncio.sleep(rng.random() ** 2)
            elif way == "amid the answer":
                await _read_a_little(connection, rng.randint(0, 6), stream=stream)
        self.counts[f"left {way}"] += 1

    async def _be_wrong(self, rng: random.Random) -> None:
        path, body = rng.choice(INVALID)
        head, text = await post(self.address, path, body)
        self.counts["invalid"] += 1
        if not 400 <= head.status < 500 or b'"error"' not in text:
            self._blame(f"an invalid request got {head.status}: {json.dumps(body)[:80]} -> {text[:200]!r}")

    def _blame(self, problem: str) -> None:
        self.counts["problems"] += 1
        if len(self.problems) < 50:
            self.problems.append(problem)

    # -- checks -------------------------------------------------------------------------------------------

    async def _check_idle(self, number: int) -> None:
        """Gauges at zero soon after the last client has gone; counters that add up."""
        deadline = time.monotonic() + IDLE_LIMIT_S
        while True:
            metrics = await read_metrics(self.address)
            left = busy_gauges(metrics) if metrics is not None else {}
            if not left or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.2)
        if left:
            self._blame(f"round {number + 1}: not idle {IDLE_LIMIT_S:.0f} s after the last client: {left}")
        if metrics is not None:
            for problem in unbalanced_counters(metrics):
                self._blame(f"round {number + 1}: {problem}")
        elif number == 0:
            self.problems.append("the server has no /metrics, so nothing says whether it is idle")
        self.last_metrics = metrics
        if self.pids:
            self.resident.append(resident_mib(self.pids))

    async def _check_answers(self) -> None:
        """Each kind that was completed, alone; a mismatch is told with both texts."""
        for kind in self.kinds:
            if kind.name not in self.answers:
                continue
            alone = await self._alone(kind)
            for answer, count in self.answers[kind.name].items():
                if answer != alone:
                    self._blame(f"{kind.name}: {count} answers differ from the solo run\n  {answer}\n  {alone}")
                else:
                    self.counts["equal to the solo run"] += count

    async def _alone(self, kind: Ask) -> Answer:
        async with Connection(self.address) as connection:
            await connection.send(_bytes_of(kind, stream=False))
            return await read_answer(connection, stream=False)

    def _check_memory(self) -> None:
        if len(self.resident) > 1 and max(self.resident[1:]) > self.resident[0] * (1 + MAX_GROWTH):
            self._blame(f"memory grew by more than {MAX_GROWTH:.0%} after the first round: {self.resident} MiB")


def busy_gauges(metrics: Metrics) -> dict[str, float]:
    """Gauges that must be 0 in an idle server, and are not."""
    names = ("infer_requests_open", "infer_requests_running", "infer_requests_waiting")
    gauges = {name: metrics.total(name) for name in names}
    gauges["live KV blocks"] = metrics.by("infer_kv_blocks", "state").get("live", 0.0)
    return {name: value for name, value in gauges.items() if value != 0}


def unbalanced_counters(metrics: Metrics) -> list[str]:
    """Sums that must hold in an idle server, and don't."""
    received = metrics.total("infer_requests_received_total")
    by_outcome = metrics.by("infer_requests_finished_total", "outcome")
    if received != sum(by_outcome.values()):
        return [f"{received:.0f} requests were received, but {by_outcome} ended"]
    return []


def _bytes_of(kind: Ask, *, stream: bool) -> bytes:
    more = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    return request_bytes("POST", kind.path, json.dumps({**kind.body, **more}).encode())


async def _read_a_little(connection: Connection, count: int, *, stream: bool) -> None:
    head = await connection.head()
    if not stream or head.status != 200:
        return
    events = connection.events(head)
    for _ in range(count):
        if await anext(events, "[DONE]") == "[DONE]":
            break
    await events.aclose()  # type: ignore[attr-defined]


def soak_own_server(
    plan: SoakPlan, model: str, folder: Path, *, flags: Sequence[str], infer: Path, home: Path | None = None
) -> Soak:
    """Start `infer serve`, soak it, and look into its log. `model` "tiny" is a random model made in `folder`."""
    is_tiny = model == "tiny"
    name = str(write_tiny_llama(folder / "tiny-llama")) if is_tiny else model
    sizes = (*(TINY_FLAGS if is_tiny else ()), *flags)
    with serving(infer, [name], folder, sizes=sizes, home=home) as served:
        pids = (served.process.pid, *served.child_pids())
        soak = Soak(Address.of(served.url), plan, pids, (4, 20, 40) if is_tiny else (8, 40, 120))
        asyncio.run(soak.run())
        _check_log(soak, served)
        status = served.stop()
        if status != 0:
            soak.problems.append(f"the server ended with {status}")
    return soak


def _check_log(soak: Soak, served: Served) -> None:
    lines = [line for line in served.said().splitlines() if TROUBLE.search(line)]
    soak.problems.extend(f"log: {line}" for line in lines[:10])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--clients", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--kinds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--warm-up", type=float, default=120.0, help="seconds of load before the first round")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--pid", type=int, action="append", default=[], help="its processes, for their memory")
    parser.add_argument("--infer", type=Path, default=Path(sys.executable).with_name("infer"))
    parser.add_argument("--home", type=Path, help="folder of fetched models (INFER_HOME)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="more flags of `infer serve`, after --")
    options = parser.parse_args()
    plan = SoakPlan(
        options.minutes * 60,
        options.clients,
        options.rounds,
        options.kinds,
        seed=options.seed,
        warm_up_s=options.warm_up,
    )
    started = time.monotonic()
    if options.url:
        soak = Soak(Address.of(options.url), plan, options.pid)
        asyncio.run(soak.run())
    else:
        with tempfile.TemporaryDirectory() as folder:
            soak = soak_own_server(
                plan, options.model, Path(folder), flags=options.flags, infer=options.infer, home=options.home
            )
    summary = {**soak.summary(), "took_s": round(time.monotonic() - started, 1)}
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(summary, indent=1))
    sys.exit(bool(soak.problems))


if __name__ == "__main__":
    main()
