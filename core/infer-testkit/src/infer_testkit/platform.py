"""Conformance of platforms.

class TestMine(PlatformConformance):
    platform = "mine"
"""

from __future__ import annotations

from typing import ClassVar

import pytest
import torch

from infer_api.manifest import PlatformPlugin
from infer_api.platforms import Platform
from infer_api.specs import Reason, Score
from infer_testkit.plugin import PluginConformance, find_manifest, make_plugin

__all__ = ["PlatformConformance"]


class PlatformConformance(PluginConformance):
    """Fill in `platform`. Tests that need the device are skipped where `probe` says that it is absent."""

    kind = "platforms"
    platform: ClassVar[str]
    """Name of the installed plugin."""

    def plugin_name(self) -> str:
        return self.platform

    def make_platform(self) -> Platform:
        """The platform under test, with its default options."""
        platform: Platform = make_plugin("platforms", self.platform)
        return platform

    @pytest.fixture
    def present(self) -> Platform:
        """The platform, on a machine that has the device."""
        platform = self.make_platform()
        found = platform.probe()
        if isinstance(found, Reason):
            pytest.skip(found.text)
        return platform

    def test_probe_says_why(self) -> None:
        found = self.make_platform().probe()
        assert (found.because if isinstance(found, Score) else found.text) != ""

    def test_facts_agree_with_the_manifest(self, present: Platform) -> None:
        facts, manifest = present.facts(), find_manifest(self.kind, self.platform)
        assert isinstance(manifest, PlatformPlugin)
        assert facts.device_type == manifest.supports.device_type
        assert set(facts.dtypes) <= set(manifest.supports.dtypes)

    def test_facts_are_usable(self, present: Platform) -> None:
        facts = present.facts()
        assert facts.name
        assert facts.dtypes
        assert all(isinstance(getattr(torch, name), torch.dtype) for name in facts.dtypes)
        assert facts.in_flight >= 1
        assert 0 < facts.default_memory_fraction <= 1

    def test_the_device_is_ready_for_use(self, present: Platform) -> None:
        threads = torch.get_num_threads()
        try:
            device = present.device(0)
            assert device.type == present.facts().device_type
            assert torch.ones(3, device=device).sum().item() == 3
        finally:
            torch.set_num_threads(threads)

    def test_memory_is_what_the_device_has(self, present: Platform) -> None:
        memory = present.memory()
        assert 0 < memory.free_bytes <= memory.total_bytes

    @pytest.mark.parametrize("shape", [(3,), (2, 5, 7)])
    def test_static_tensors_are_zeroed(self, present: Platform, shape: tuple[int, ...]) -> None:
        tensor = present.static(shape, torch.int32)
        assert (tuple(tensor.shape), tensor.dtype) == (shape, torch.int32)
        assert tensor.device.type == present.facts().device_type
        assert not tensor.any()

    def test_a_replay_reads_what_static_tensors_hold_now(self, present: Platform, rng: torch.Generator) -> None:
        x, y = present.static((5,), torch.float32), present.static((5,), torch.float32)

        def step() -> None:
            torch.mul(x, 2, out=y)

        graph = present.capture("double", step, (x, y))
        for _ in range(3):
            fresh = torch.randn(5, generator=rng)
            x.copy_(fresh)
            graph.replay()
            assert torch.equal(y.cpu(), 2 * fresh)

    def test_a_copy_is_there_after_its_event(self, present: Platform, rng: torch.Generator) -> None:
        fresh = torch.randn(7, 3, generator=rng)
        on_device, back = present.static((7, 3), torch.float32), torch.zeros(7, 3)
        present.copy_async(on_device, fresh).wait()
        present.copy_async(back, on_device).wait()
        assert torch.equal(back, fresh)

    def test_names_a_collective_backend(self) -> None:
        assert self.make_platform().collective_backend()
