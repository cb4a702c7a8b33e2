from __future__ import annotations

from infer_api.manifest import write_manifest
from infer_loader_safetensors.checkpoint import SafetensorsCheckpoint
from infer_loader_safetensors.manifest import SAFETENSORS


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_loader_safetensors", check=True)


def test_the_implementation_is_the_loader() -> None:
    assert SAFETENSORS.implementation == f"{SafetensorsCheckpoint.__module__}:{SafetensorsCheckpoint.__name__}"
