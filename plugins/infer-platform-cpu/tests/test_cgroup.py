from __future__ import annotations

from pathlib import Path

import pytest

from infer_platform_cpu.cgroup import CGroup, MemoryLimit


@pytest.fixture
def machine(tmp_path: Path):
    """Writes files below a root: machine({"proc/self/cgroup": "0::/"})."""

    def write(files: dict[str, str]) -> CGroup:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return CGroup(tmp_path)

    return write


def test_a_machine_without_control_groups_has_no_limits(tmp_path: Path) -> None:
    assert CGroup(tmp_path).cpu_quota() is None
    assert CGroup(tmp_path).memory() is None


def test_version_2_without_limits(machine) -> None:
    group = machine(
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}
    )
    assert (group.cpu_quota(), group.memory()) == (None, None)


def test_version_2_takes_the_smallest_quota_of_all_ancestors(machine) -> None:
    group = machine(
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/pod/box/cpu.max": "400000 100000\n",
        }
    )
    assert group.cpu_quota() == 1.5


def test_version_2_memory_counts_droppable_file_cache_as_free(machine) -> None:
    group = machine(
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "1000\n",
            "sys/fs/cgroup/memory.current": "700\n",
            "sys/fs/cgroup/memory.stat": "anon 400\ninactive_file 250\n",
        }
    )
    assert group.memory() == MemoryLimit(1000, 450)


def test_the_memory_limit_that_leaves_least_free_counts(machine) -> None:
    group = machine(
        {
            "proc/self/cgroup": "0::/pod/box\n",
            "sys/fs/cgroup/pod/memory.max": "1000\n",
            "sys/fs/cgroup/pod/memory.current": "900\n",
            "sys/fs/cgroup/pod/box/memory.max": "500\n",
            "sys/fs/cgroup/pod/box/memory.current": "100\n",
        }
    )
    memory = group.memory()
    assert memory is not None
    assert memory.free_bytes == 100


def test_version_1_reads_the_tree_of_each_controller(machine) -> None:
    group = machine(
        {
            "proc/self/cgroup": "4:memory:/box\n3:cpu,cpuacct:/box\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us": "200000\n",
            "sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "2000\n",
            "sys/fs/cgroup/memory/box/memory.usage_in_bytes": "500\n",
            "sys/fs/cgroup/memory/box/memory.stat": "total_inactive_file 100\n",
        }
    )
    assert group.cpu_quota() == 2.0
    assert group.memory() == MemoryLimit(2000, 400)


def test_version_1_writes_no_limit_as_a_huge_number(machine) -> None:
    group = machine(
        {
            "proc/self/cgroup": "4:memory:/\n3:cpu:/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        }
    )
    assert (group.cpu_quota(), group.memory()) == (None, None)


def test_a_group_mounted_as_the_root_of_the_tree_is_still_read(machine) -> None:
    group = machine({"proc/self/cgroup": "0::/not/mounted/here\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"})
    assert group.cpu_quota() == 0.5
