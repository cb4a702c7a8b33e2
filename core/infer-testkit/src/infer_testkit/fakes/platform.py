"""A platform without a device of its own: memory is a number, and copies happen when they are waited for.

It computes on the processor, but is strict where a processor is lenient: memory runs out, a copy that nobody
waited for has not happened, and a replay goes through `capture` or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from infer_api.errors import PluginError
from infer_api.platforms import DeviceFacts, MemoryInfo
from infer_api.specs import Reason, Score

__all__ = ["FakePlatform"]

MIB = 1024 * 1024


class DeferredCopy:
    """Copies when it is waited for, and only once."""

    def __init__(self, dst: Tensor, src: Tensor) -> None:
        self._pending: tuple[Tensor, Tensor] | None = (dst, src)

    def wait(self) -> None:
        if self._pending is not None:
            dst, src = self._pending
            dst.copy_(src)
            self._pending = None


class CountedGraph:
    """Runs the captured function, and counts."""

    def __init__(self, fn: Callable[[], None]) -> None:
        self._fn = fn
        self.num_replays = 0

    def replay(self) -> None:
        self.num_replays += 1
        self._fn()


class FakePlatform:
    """Implements `infer_api.platforms.Platform`. `missing` makes `probe` say no, with that reason."""

    def __init__(
        self, options: Any = None, *, total_bytes: int = 64 * MIB, in_flight: int = 1, missing: str = ""
    ) -> None:
        self._total_bytes = total_bytes
        self._in_flight = in_flight
        self._missing = missing
        self.used_bytes = 0
        self.graphs: dict[object, CountedGraph] = {}
        """Everything captured so far, by key."""

    def probe(self) -> Score | Reason:
        return Reason(self._missing) if self._missing else Score(1, "a fake is always there")

    def facts(self) -> DeviceFacts:
        return DeviceFacts("cpu", "fake device", ("float32",), in_flight=self._in_flight, default_memory_fraction=0.5)

    def device(self, rank: int) -> torch.device:
        return torch.device("cpu")

    def memory(self) -> MemoryInfo:
        return MemoryInfo(self._total_bytes, self._total_bytes - self.used_bytes)

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A zeroed tensor, taken off the memory. Raises PluginError when there is not enough."""
        num_bytes = math.prod(shape) * dtype.itemsize
        if num_bytes > self._total_bytes - self.used_bytes:
            raise PluginError(
                f"fake device: {num_bytes} bytes asked for, {self._total_bytes - self.used_bytes} are free"
            )
        self.used_bytes += num_bytes
        return torch.zeros(shape, dtype=dtype)

    def capture(self, key: object, fn: Callable[[], None], static: tuple[Tensor, ...]) -> CountedGraph:
        """Raises PluginError when `key` has been captured before."""
        if key in self.graphs:
            raise PluginError(f"fake device: {key!r} has been captured before")
        fn()
        self.graphs[key] = CountedGraph(fn)
        return self.graphs[key]

    def copy_async(self, dst: Tensor, src: Tensor) -> DeferredCopy:
        return DeferredCopy(dst, src)

    def collective_backend(self) -> str:
        return "gloo"
