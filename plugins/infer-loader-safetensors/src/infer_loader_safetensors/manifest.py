"""The loader `safetensors`."""

from __future__ import annotations

from infer_api.manifest import LoaderPlugin, LoaderSupport

__all__ = ["SAFETENSORS"]

SAFETENSORS = LoaderPlugin(
    name="safetensors",
    summary="A folder with config.json and *.safetensors files, as Hugging Face lays them out.",
    implementation="infer_loader_safetensors.checkpoint:SafetensorsCheckpoint",
    # A folder with a tokenizer alone can be opened, too, for its tokenizer.
    supports=LoaderSupport(dialect="hf", contains=("config.json", "tokenizer.json")),
    priority=50,
)
