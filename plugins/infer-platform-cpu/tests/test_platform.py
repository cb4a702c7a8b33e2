from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import torch

from infer_platform_cpu.options import CpuOptions
from infer_platform_cpu.platform import CpuPlatform
from infer_testkit.platform import PlatformConformance


class TestCpu(PlatformConformance):
    platform = "cpu"


@pytest.fixture
def threads_restored():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("threads_restored")
def test_the_threads_option_sets_the_pool() -> None:
    platform = CpuPlatform(CpuOptions(threads=3))
    platform.device(0)
    assert torch.get_num_threads() == 3
    assert platform.facts().num_threads == 3


def test_a_container_limit_bounds_total_and_free_memory(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup"
    group.mkdir(parents=True)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (group / "memory.max").write_text("1000000\n")
    (group / "memory.current").write_text("300000\n")
    memory = CpuPlatform(CpuOptions(), tmp_path).memory()
    assert (memory.total_bytes, memory.free_bytes) == (1_000_000, 700_000)


def test_options_refuse_a_negative_number_of_threads() -> None:
    with pytest.raises(ValueError, match="threads"):
        CpuOptions(threads=-1)


def test_large_static_memory_is_taken_only_when_it_is_written() -> None:
    before = psutil.Process().memory_info().rss
    cache = CpuPlatform(CpuOptions()).static((1 << 28,), torch.float32)
    assert psutil.Process().memory_info().rss - before < 1 << 26
    cache[7] = 3.0
    assert cache[6:9].tolist() == [0.0, 3.0, 0.0]
