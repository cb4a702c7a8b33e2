"""The platform: one processor, one step in flight, everything synchronous."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import torch
from torch import Tensor

from infer_api.platforms import DeviceFacts, MemoryInfo
from infer_api.specs import Score
from infer_platform_cpu.cgroup import CGroup
from infer_platform_cpu.host import read_processor, usable_cores
from infer_platform_cpu.options import CpuOptions

__all__ = ["CpuPlatform"]

LAZY_FROM_BYTES = 1 << 20

SCORE = 10
"""Below that of any accelerator."""


class Finished:
    """The event of a copy that is over when it returns."""

    def wait(self) -> None:
        """Return at once."""


@dataclass(frozen=True)
class EagerGraph:
    """A step that is not recorded but run again, which on this platform costs the same."""

    fn: Callable[[], None]

    def replay(self) -> None:
        """Run the step again."""
        self.fn()


class CpuPlatform:
    """Reads files of the operating system below `root`."""

    def __init__(self, options: CpuOptions, root: Path = Path("/")) -> None:
        self._options = options
        self._root = root

    def probe(self) -> Score:
        """Every machine has a processor."""
        return Score(SCORE, "every machine has a processor")

    def facts(self) -> DeviceFacts:
        """float32 comes first: few processors multiply smaller floats natively."""
        processor = read_processor(self._root)
        return DeviceFacts(
            device_type="cpu",
            name=processor.name,
            dtypes=("float32", "bfloat16", "float16"),
            in_flight=1,
            graphs=False,
            cpu_flags=processor.flags,
            num_threads=self._num_threads(),
            default_memory_fraction=0.5,
        )

    def device(self, rank: int) -> torch.device:
        """The processor, with torch's pool set to `threads`."""
        torch.set_num_threads(self._num_threads())
        return torch.device("cpu")

    def memory(self) -> MemoryInfo:
        """What both the machine and the control group of the process allow."""
        machine = psutil.virtual_memory()
        limit = CGroup(self._root).memory()
        if limit is None:
            return MemoryInfo(machine.total, machine.available)
        return MemoryInfo(min(machine.total, limit.limit_bytes), min(machine.available, limit.free_bytes))

    def static(self, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """A zeroed tensor. Large ones take memory only as they are written: most of a KV cache may never be."""
        num_bytes = torch.Size(shape).numel() * dtype.itemsize
        if num_bytes < LAZY_FROM_BYTES:
            return torch.zeros(shape, dtype=dtype)
        # torch.zeros writes every page; the kernel hands out anonymous pages zeroed, on first touch.
        return torch.frombuffer(mmap.mmap(-1, num_bytes), dtype=dtype).view(shape)

    def capture(self, key: object, fn: Callable[[], None], static: tuple[Tensor, ...]) -> EagerGraph:
        """Run `fn` once, as a recording would, and hand out an object that runs it again."""
        fn()
        return EagerGraph(fn)

    def copy_async(self, dst: Tensor, src: Tensor) -> Finished:
        """Copy before returning."""
        dst.copy_(src)
        return Finished()

    def collective_backend(self) -> str:
        """Collectives of torch.distributed on processors."""
        return "gloo"

    def _num_threads(self) -> int:
        return self._options.threads or usable_cores(self._root)
