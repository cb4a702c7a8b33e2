"""Kind `platforms`: a device, its memory, and how steps run on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from infer_api.specs import Reason, Score

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["DeviceFacts", "Event", "Graph", "MemoryInfo", "Platform"]


@dataclass(frozen=True)
class DeviceFacts:
    """What selection and the engine may know of a device.

    `dtypes` are torch names in order of preference; `in_flight` is how many steps may be submitted at
    once (1 on CPU, 2 where host and device overlap); `graphs` whether `capture` pays.
    """

    device_type: str
    name: str
    dtypes: tuple[str, ...]
    in_flight: int = 1
    graphs: bool = False
    compute_capability: str = ""
    cpu_flags: frozenset[str] = frozenset()
    num_threads: int = 0
    default_memory_fraction: float = 0.9
    """Share of free memory that the KV cache takes when the user says nothing."""
    details: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class MemoryInfo:
    """Memory of the device in bytes. `free_bytes` is what a new allocation may count on."""

    total_bytes: int
    free_bytes: int


class Graph(Protocol):
    """A captured step."""

    def replay(self) -> None:
        """Run it again on the static buffers it was captured with."""
        ...


class Event(Protocol):
    """A point in the device's queue."""

    def wait(self) -> None:
        """Block the host until the point is reached."""
        ...


class Platform(Protocol):
    """Built by the manifest's `implementation(options)`; building touches no device."""

    def __init__(self, options: Any) -> None: ...

    def probe(self) -> Score | Reason:
        """Whether this machine has the device. Cheap; initialises nothing that outlives the call."""
        ...

    def facts(self) -> DeviceFacts: ...

    def device(self, rank: int) -> torch.device:
        """Device of worker `rank`, ready for use (thread pools and contexts are set up here)."""
        ...

    def memory(self) -> MemoryInfo: ...

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A zeroed tensor at a fixed address, for step state and captured graphs."""
        ...

    def capture(self, key: object, fn: Callable[[], None], static: tuple[Tensor, ...]) -> Graph:
        """Record `fn`, which reads and writes only `static`. Raises PluginError naming what cannot be replayed."""
        ...

    def copy_async(self, dst: Tensor, src: Tensor) -> Event:
        """Start a copy between host and device; the event says when `dst` may be read."""
        ...

    def collective_backend(self) -> str:
        """Name of the torch.distributed backend ("gloo", "nccl", …)."""
        ...
