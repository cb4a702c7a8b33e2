"""What the machine and its operating system say of the processor."""

from __future__ import annotations

import math
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from infer_platform_cpu.cgroup import CGroup

__all__ = ["Processor", "read_processor", "usable_cores"]


@dataclass(frozen=True)
class Processor:
    """Name and instruction flags of the processor."""

    name: str
    flags: frozenset[str]


def read_processor(root: Path = Path("/")) -> Processor:
    """From /proc/cpuinfo below `root`; elsewhere the operating system's name for it, without flags."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    name = fields.get("model name") or platform.processor() or platform.machine() or "unknown processor"
    flags = fields.get("flags") or fields.get("Features") or ""  # x86 and Arm
    return Processor(name, frozenset(flags.split()))


def usable_cores(root: Path = Path("/")) -> int:
    """Cores that this process may keep busy: its affinity, and its control group's quota rounded up."""
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = CGroup(root).cpu_quota()
    return affinity if quota is None else max(1, min(affinity, math.ceil(quota)))
