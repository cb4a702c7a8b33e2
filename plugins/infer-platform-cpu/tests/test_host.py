from __future__ import annotations

import os
from pathlib import Path

from infer_platform_cpu.host import read_processor, usable_cores


def test_name_and_flags_come_from_the_first_processor(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "processor\t: 0\nmodel name\t: Fast One\nflags\t\t: fma avx2\n\n"
        "processor\t: 1\nmodel name\t: Other\nflags\t\t: x\n"
    )
    processor = read_processor(tmp_path)
    assert processor.name == "Fast One"
    assert processor.flags == {"fma", "avx2"}


def test_arm_lists_its_flags_as_features(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\nFeatures : asimd bf16\n")
    assert read_processor(tmp_path).flags == {"asimd", "bf16"}


def test_a_machine_without_cpuinfo_still_has_a_name(tmp_path: Path) -> None:
    processor = read_processor(tmp_path)
    assert processor.name
    assert processor.flags == frozenset()


def test_cores_follow_the_affinity(tmp_path: Path) -> None:
    assert usable_cores(tmp_path) == len(os.sched_getaffinity(0))


def test_half_a_core_of_quota_still_means_one_thread(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text("0::/\n")
    (tmp_path / "sys/fs/cgroup").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/cpu.max").write_text("50000 100000\n")
    assert usable_cores(tmp_path) == 1
