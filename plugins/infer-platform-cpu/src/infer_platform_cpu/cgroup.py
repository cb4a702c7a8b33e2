"""What a Linux control group grants: cores and memory. Reads files below a root, so that tests bring their own.

Version 2 has one tree (`cpu.max`, `memory.max`, limits of every ancestor apply); version 1 has a tree per
controller. In a container the group's own folder is often mounted as the tree's root, so both places are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CGroup", "MemoryLimit"]

TREE = "sys/fs/cgroup"
MEMBERSHIP = "proc/self/cgroup"
UNLIMITED_BYTES = 1 << 60
"""Version 1 writes "no limit" as a number near 2^63."""


@dataclass(frozen=True)
class MemoryLimit:
    """A limit in bytes, and how much of it is in use and cannot be dropped by the kernel."""

    limit_bytes: int
    used_bytes: int

    @property
    def free_bytes(self) -> int:
        return max(0, self.limit_bytes - self.used_bytes)


@dataclass(frozen=True)
class CGroup:
    """The control groups of this process, as the files below `root` ("/" on a real machine) state them."""

    root: Path = Path("/")

    def cpu_quota(self) -> float | None:
        """Cores that may be busy at a time, the smallest quota that applies; None without one."""
        quotas = [quota for folder in self._folders("cpu") if (quota := _cpu_quota(folder)) is not None]
        return min(quotas, default=None)

    def memory(self) -> MemoryLimit | None:
        """The limit that leaves the least free; None without one."""
        limits = [limit for folder in self._folders("memory") if (limit := _memory_limit(folder)) is not None]
        return min(limits, key=lambda limit: limit.free_bytes, default=None)

    def _folders(self, controller: str) -> Iterator[Path]:
        """Folders whose limits apply: from the process's own group up to the tree's root, in both versions."""
        for line in _read(self.root / MEMBERSHIP).splitlines():
            number, controllers, path = line.split(":", 2)
            if number == "0" and not controllers:
                tree = self.root / TREE
            elif controller in controllers.split(","):
                tree = self._version_1_tree(controllers, controller)
            else:
                continue
            own = tree / path.lstrip("/")
            yield from (folder for folder in (own, *own.parents) if folder.is_relative_to(tree) and folder.is_dir())

    def _version_1_tree(self, controllers: str, controller: str) -> Path:
        joined = self.root / TREE / controllers
        return joined if joined.is_dir() else self.root / TREE / controller


def _read(path: Path) -> str:
    """Text of a file of the kernel, "" where it is not offered."""
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _read_int(path: Path) -> int | None:
    text = _read(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _cpu_quota(folder: Path) -> float | None:
    words = _read(folder / "cpu.max").split()
    if len(words) == 2 and words[0].isdigit():
        return int(words[0]) / int(words[1])
    quota, period = _read_int(folder / "cpu.cfs_quota_us"), _read_int(folder / "cpu.cfs_period_us")
    return quota / period if quota is not None and quota > 0 and period else None


def _memory_limit(folder: Path) -> MemoryLimit | None:
    for limit_file, used_file, cache_key in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        limit = _read_int(folder / limit_file)
        if limit is not None and limit < UNLIMITED_BYTES:
            used = _read_int(folder / used_file) or 0
            return MemoryLimit(limit, max(0, used - _stat(folder / "memory.stat", cache_key)))
    return None


def _stat(path: Path, key: str) -> int:
    """One number of a `memory.stat` file; 0 where it is not listed."""
    pairs = (line.split() for line in _read(path).splitlines())
    return next((int(pair[1]) for pair in pairs if len(pair) == 2 and pair[0] == key), 0)
