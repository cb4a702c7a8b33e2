"""What the plugin offers, as data."""

from __future__ import annotations

from infer_api.manifest import PlatformPlugin, PlatformSupport, Requires
from infer_platform_cpu.options import CpuOptions

__all__ = ["PLUGIN"]

PLUGIN = PlatformPlugin(
    name="cpu",
    summary="The processor, with as many threads and as much memory as the container allows.",
    implementation="infer_platform_cpu.platform:CpuPlatform",
    options=CpuOptions,
    supports=PlatformSupport(device_type="cpu", dtypes=frozenset({"float32", "bfloat16", "float16"})),
    priority=10,
    requires=Requires(modules=("torch", "psutil"), torch=">=2.11"),
)
