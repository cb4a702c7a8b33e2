"""The points of a sweep: flags of the server times rates or bounds of the load."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Any

from infer_api.errors import ConfigError
from infer_bench.arrivals import parse_rate
from infer_bench.options import BenchOptions

__all__ = ["Point", "all_points", "parse_vary"]

Flags = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Point:
    """One server and one load. `flags` are (name, value) of the server, in the order in which they were given."""

    flags: Flags
    request_rate: str = "inf"
    max_concurrency: int | None = None

    @property
    def series(self) -> str:
        """What tells the servers of a sweep apart, for legends; "" for the only one."""
        return ", ".join(f"{name}={value}" for name, value in self.flags)

    @property
    def load(self) -> dict[str, Any]:
        """The options of the load."""
        return {"request_rate": self.request_rate, "max_concurrency": self.max_concurrency}

    @property
    def file_name(self) -> str:
        """Name of its JSON file, such as max-num-seqs=8.rate=2.json."""
        load = f"rate={self.request_rate}" if self.max_concurrency is None else f"concurrency={self.max_concurrency}"
        words = [*(f"{name}={value}" for name, value in self.flags), load]
        return ".".join(re.sub(r"[^\w=+-]+", "_", word) for word in words) + ".json"

    @property
    def server_flags(self) -> tuple[str, ...]:
        return tuple(f"--{name}={value}" for name, value in self.flags)


def parse_vary(words: Iterable[str]) -> list[list[tuple[str, str]]]:
    """For each varied flag its (name, value) pairs: ["a=1", "2", "b=x"] → [[(a, 1), (a, 2)], [(b, x)]].

    Raises ConfigError for a value without a flag, and for a flag that comes twice.
    """
    groups: dict[str, list[tuple[str, str]]] = {}
    name = ""
    for word in ",".join(words).split(","):
        head, equals, value = word.strip().partition("=")
        if equals:
            name = head.lstrip("-")
            if not name or name in groups:
                raise ConfigError(f"--vary takes each flag once, as FLAG=V1,V2; found {word!r}")
            groups[name] = []
        elif name:
            value = head
        if not value or not name:
            raise ConfigError(f"--vary takes FLAG=V1,V2, such as max-num-seqs=8,64; found {word!r}")
        groups[name].append((name, value))
    return list(groups.values())


def all_points(options: BenchOptions) -> list[Point]:
    """Every point, those of one server together. Raises ConfigError when there is nothing to go through, or two
    points would share a file."""
    if bool(options.request_rates) == bool(options.concurrencies):
        raise ConfigError("infer bench sweep needs --request-rates 1,2,4,inf or --concurrencies 1,2,4,8")
    if any(bound < 1 for bound in options.concurrencies):
        raise ConfigError(f"--concurrencies must be 1 or more, found {options.concurrencies}")
    for rate in options.request_rates:
        parse_rate(rate, "--request-rates")
    servers = list(product(*parse_vary(options.vary))) if options.vary else [()]
    points = [
        *(Point(flags, request_rate=rate) for flags in servers for rate in options.request_rates),
        *(Point(flags, max_concurrency=bound) for flags in servers for bound in options.concurrencies),
    ]
    names = [point.file_name for point in points]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"two points of the sweep have the same name {twice!r}: give each value once")
    return points
