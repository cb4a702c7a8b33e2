"""Thousands of mutated requests: no 5xx, no hang, and the server still answers a good one.

    python tests/load/fuzz.py --count 10000 [--clients 8] [--seed 1] [--url URL | --model tiny] [--allow-503]
                              [-- flags of `infer serve`]

Everything follows from the seed: shot number i is the same in every run. Prints the statuses by kind of mutation,
and requests per second. A 503 is counted apart, and is a violation unless --allow-503. Exit status 1 when anything is
violated.
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
from mutations import Shot, mutated
from served import Served, serving
from soak import TINY_FLAGS, TROUBLE
from tiny_llama import write_tiny_llama
from wire import Address, Connection, Gone, Head, post, request_bytes

__all__ = ["Fuzz", "fuzz_own_server", "main"]

HANG_S = 20.0
EVERY = 500
CLOSED = "closed"
WAITS = frozenset({"wire: huge length", "wire: huge chunk size"})
"""A server may rightly wait for the bytes that these promise; whoever sends them closes the connection."""
GOOD = {"prompt": "Seven green bottles", "max_tokens": 5, "temperature": 0, "ignore_eos": True}
_LIMITED_S = 0.3


@dataclass
class Fuzz:
    """One bombardment of one server."""

    address: Address
    count: int
    seed: int = 1
    clients: int = 8
    allow_503: bool = False
    problems: list[str] = field(default_factory=list)
    statuses: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    slowest_s: float = 0.0
    slowest: str = ""
    took_s: float = 0.0

    async def run(self) -> None:
        """Fire all shots; after every 500 ask for something good."""
        started = time.monotonic()
        self._want = await self._good()
        for first in range(0, self.count, EVERY):
            numbers = iter(range(first, min(first + EVERY, self.count)))
            await asyncio.gather(*(self._client(numbers) for _ in range(self.clients)))
            got = await self._good()
            if got != self._want:
                self.problems.append(
                    f"after shot {first + EVERY}, a good request got {got!r} instead of {self._want!r}"
                )
        self.took_s = time.monotonic() - started

    def shot(self, number: int) -> Shot:
        """Shot `number`, whatever came before it."""
        return mutated(random.Random(f"{self.seed}/{number}"))

    def summary(self) -> dict[str, Any]:
        """What happened, as plain data."""
        total: Counter[str] = Counter()
        for counter in self.statuses.values():
            total.update(counter)
        return {
            "shots": self.count,
            "requests_per_s": round(self.count / self.took_s, 1),
            "statuses": dict(sorted(total.items())),
            "by_kind": {kind: dict(sorted(found.items())) for kind, found in sorted(self.statuses.items())},
            "slowest_s": round(self.slowest_s, 2),
            "slowest": self.slowest,
            "problems": self.problems,
        }

    async def _good(self) -> str:
        head, body = await post(self.address, "/v1/completions", GOOD, HANG_S)
        return str(json.loads(body)["choices"][0]["text"]) if head.status == 200 else f"{head.status}: {body[:200]!r}"

    async def _client(self, numbers: Any) -> None:
        for number in numbers:
            shot = self.shot(number)
            started = time.monotonic()
            outcome = await self._fire(number, shot)
            took = time.monotonic() - started
            if took > self.slowest_s:
                self.slowest_s, self.slowest = took, f"shot {number} ({shot.kind}): {outcome}"
            self.statuses[shot.kind][outcome] += 1

    async def _fire(self, number: int, shot: Shot) -> str:
        data = shot.raw or request_bytes("POST", shot.path, shot.body, shot.headers)
        try:
            async with (
                asyncio.timeout(_LIMITED_S if shot.kind in WAITS else HANG_S),
                Connection(self.address) as connection,
            ):
                await connection.send(data)
                head = await connection.head()
                body = b"".join([piece async for piece in connection.pieces(head)])
        except TimeoutError:
            if shot.kind in WAITS:
                return "waits"
            self._blame(number, shot, f"no answer within {HANG_S:.0f} s")
            return "hang"
        except (Gone, ConnectionError):
            if not shot.raw:
                self._blame(number, shot, "the connection was closed without a whole answer")
            return CLOSED
        return self._judge(number, shot, head, body)

    def _judge(self, number: int, shot: Shot, head: Head, body: bytes) -> str:
        if head.status >= 500 and not (head.status == 503 and self.allow_503):
            self._blame(number, shot, f"{head.status}: {body[:300]!r}")
        elif b'"server_error"' in body or b'"internal_error"' in body:
            self._blame(number, shot, f"an error of the server's own within a {head.status}: {body[-400:]!r}")
        elif not shot.raw and head.status >= 400 and b'"error"' not in body and not _is_of_the_parser(head, body):
            self._blame(number, shot, f"{head.status} without an error object: {body[:300]!r}")
        elif head.status == 200 and re.search(rb"\b(NaN|-?Infinity)\b", re.sub(rb'"(?:[^"\\]|\\.)*"', b"", body)):
            self._blame(number, shot, f"no strict JSON: {body[:300]!r}")
        return str(head.status)

    def _blame(self, number: int, shot: Shot, problem: str) -> None:
        if len(self.problems) < 50:
            sent = (shot.raw or shot.body)[:300]
            self.problems.append(
                f"shot {number}, {shot.kind}, {shot.path} {shot.headers or ''}: {problem}\n  sent {sent!r}"
            )


def _is_of_the_parser(head: Head, body: bytes) -> bool:
    """What the HTTP library says to requests that are none; such never reach the application."""
    return head.status == 400 and body == b"Invalid HTTP request received."


def fuzz_own_server(
    fuzz: dict[str, Any], model: str, folder: Path, *, flags: Sequence[str], infer: Path, home: Path | None = None
) -> Fuzz:
    """Start `infer serve`, fuzz it, and look into its log. `fuzz` are fields of `Fuzz`."""
    name = str(write_tiny_llama(folder / "tiny-llama")) if model == "tiny" else model
    # Short sequences: a mutation that drops max_tokens asks for all that fits.
    sizes = (*((*TINY_FLAGS, "--max-model-len", "128") if model == "tiny" else ()), *flags)
    with serving(infer, [name], folder, sizes=sizes, home=home) as served:
        done = Fuzz(Address.of(served.url), **fuzz)
        asyncio.run(done.run())
        _check_log(done, served)
        status = served.stop()
        if status != 0:
            done.problems.append(f"the server ended with {status}")
    return done


def _check_log(done: Fuzz, served: Served) -> None:
    lines = [line for line in served.said().splitlines() if TROUBLE.search(line)]
    done.problems.extend(f"log: {line[:500]}" for line in lines[:10])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--url", help="a server that runs already")
    parser.add_argument("--allow-503", action="store_true")
    parser.add_argument("--infer", type=Path, default=Path(sys.executable).with_name("infer"))
    parser.add_argument("--home", type=Path, help="folder of fetched models (INFER_HOME)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("flags", nargs="*", metavar="FLAG", help="more flags of `infer serve`, after --")
    options = parser.parse_args()
    fields = {name: getattr(options, name) for name in ("count", "seed", "clients", "allow_503")}
    if options.url:
        fuzz = Fuzz(Address.of(options.url), **fields)
        asyncio.run(fuzz.run())
    else:
        with tempfile.TemporaryDirectory() as folder:
            fuzz = fuzz_own_server(
                fields, options.model, Path(folder), flags=options.flags, infer=options.infer, home=options.home
            )
    text = json.dumps(fuzz.summary(), indent=1)
    if options.json:
        options.json.write_text(text + "\n", encoding="utf-8")
    print(text)
    sys.exit(bool(fuzz.problems))


if __name__ == "__main__":
    main()
