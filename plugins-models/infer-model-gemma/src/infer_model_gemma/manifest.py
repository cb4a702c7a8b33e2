"""What the plugin offers, as data."""

from __future__ import annotations

from infer_api.manifest import ModelPlugin, ModelSupport, Requires

__all__ = ["PLUGIN"]

PLUGIN = ModelPlugin(
    name="gemma",
    summary="Gemma 3 (text).",
    implementation="infer_model_gemma.family:GemmaFamily",
    supports=ModelSupport(
        architectures={"hf": ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"), "gguf": ("gemma3",)}
    ),
    priority=50,
    requires=Requires(modules=("torch",), torch=">=2.11"),
)
