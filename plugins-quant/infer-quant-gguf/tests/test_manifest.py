from __future__ import annotations

import subprocess
import sys
from importlib.metadata import entry_points

from infer_api.manifest import write_manifest
from infer_quant_gguf.manifest import LOADER, QUANTIZATION


def test_the_written_manifest_is_fresh() -> None:
    assert write_manifest("infer_quant_gguf", check=True)


def test_entry_points_name_the_manifest_objects() -> None:
    for plugin in (LOADER, QUANTIZATION):
        (entry,) = entry_points(group=f"infer.{plugin.KIND}", name="gguf")
        assert entry.load() is plugin


def test_the_manifest_imports_no_torch() -> None:
    code = "import infer_quant_gguf.manifest, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
