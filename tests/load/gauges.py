"""What a server says of itself, and what the operating system says of its processes."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from wire import Address, get

__all__ = ["Metrics", "read_metrics", "resident_mib", "wait_until"]

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


class Metrics:
    """One scrape of `/metrics`: samples by name and labels."""

    def __init__(self, text: str) -> None:
        self.samples: dict[str, dict[tuple[tuple[str, str], ...], float]] = defaultdict(dict)
        for line in text.splitlines():
            match = _SAMPLE.match(line)
            if match is not None:
                labels = tuple(sorted(_LABEL.findall(match.group(2) or "")))
                self.samples[match.group(1)][labels] = float(match.group(3))

    def total(self, name: str) -> float:
        """Sum over all labels. Raises KeyError where the name is unknown: a misspelt one must not read as 0."""
        if name not in self.samples:
            raise KeyError(f"/metrics has no {name!r}; it has {sorted(self.samples)}")
        return sum(self.samples[name].values())

    def by(self, name: str, label: str) -> dict[str, float]:
        """Sums by the value of one label."""
        sums: dict[str, float] = defaultdict(float)
        for labels, value in self.samples.get(name, {}).items():
            sums[dict(labels).get(label, "")] += value
        return dict(sums)


async def read_metrics(address: Address) -> Metrics | None:
    """None where the server has no `/metrics`."""
    head, body = await get(address, "/metrics")
    if head.status == 404:
        return None
    assert head.status == 200, f"/metrics answered {head.status}: {body[:300]!r}"
    return Metrics(body.decode("utf-8"))


def resident_mib(pids: Sequence[int]) -> float:
    """Memory that these processes have resident, together, in MiB."""
    total = 0.0
    for pid in pids:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        total += int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M)[1]) / 1024  # type: ignore[index]
    return total


def wait_until(condition: Callable[[], bool], limit_s: float) -> bool:
    """Whether the condition came true in time."""
    deadline = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
