"""`infer env` and `infer version`: what to paste into a bug report."""

from __future__ import annotations

import json
import platform
import sys
from typing import Any

import infer
from infer.cli.commands import Invocation
from infer.config.sizes import format_size
from infer.plugins.check import Machine
from infer.plugins.discovery import PluginIndex
from infer.plugins.pluginset import PluginSet

__all__ = ["environment_facts", "run", "run_version"]

THIRD_PARTIES = ("torch", "numpy", "tokenizers", "transformers", "pydantic", "msgspec", "pyzmq")
SPEED_FLAGS = (
    "avx2", "fma", "f16c", "avx512f", "avx512_vnni", "avx512_bf16", "avx_vnni", "amx_tile", "amx_int8", "asimd",
)  # fmt: skip
"""CPU flags that decide which kernels can run."""


def run_version(invocation: Invocation) -> int:
    """Entry of `infer version`."""
    print(f"infer {infer.__version__}")
    return 0


def run(invocation: Invocation) -> int:
    """Entry of `infer env`. Raises ConfigError when the configuration is wrong."""
    invocation.effective()  # a wrong variable or file is worth knowing in a bug report
    found = environment_facts(invocation.index)
    if invocation.option("json"):
        print(json.dumps(found, indent=1))
        return 0
    for name, value in found.items():
        if isinstance(value, dict):
            print(f"{name}:", *(f"  {key}: {text}" for key, text in value.items()), sep="\n")
        else:
            print(f"{name}: {value}")
    return 0


def environment_facts(index: PluginIndex) -> dict[str, Any]:
    """Versions, machine, torch, and plugins with their digest, as plain data."""
    import psutil

    machine = Machine(index.installed.versions)
    usable = [record for record in index.records() if record.state != "failed"]
    flags = machine.cpu_flags or frozenset()
    memory = psutil.virtual_memory()
    versions = {name: machine.find_version(name) for name in THIRD_PARTIES}
    return {
        "infer": infer.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "cpu": f"{psutil.cpu_count(logical=False)} cores, {psutil.cpu_count()} threads",
        "cpu flags": " ".join(flag for flag in SPEED_FLAGS if flag in flags) or "none of those that matter",
        "memory": f"{format_size(memory.available)} free of {format_size(memory.total)}",
        "packages": {name: version for name, version in versions.items() if version},
        "torch": _torch_facts(),
        "distributions": index.distributions(),
        "plugins": {
            f"{one.kind}:{one.qualified}": one.state + (f", {one.reason}" if one.reason else "")
            for one in index.records()
        },
        "plugin digest": PluginSet.pin(usable).digest,
    }


def _torch_facts() -> dict[str, str]:
    try:
        import torch
    except (ImportError, OSError) as error:  # OSError: a shared library that does not load
        return {"import": f"failed: {error}"}
    facts = {
        "version": torch.__version__,
        "threads": str(torch.get_num_threads()),
        "cpu capability": torch.backends.cpu.get_cpu_capability(),
    }
    for number in range(torch.cuda.device_count()):
        facts[f"device {number}"] = torch.cuda.get_device_name(number)
    return facts
