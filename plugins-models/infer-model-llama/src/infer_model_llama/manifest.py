"""What the plugin offers, as data."""

from __future__ import annotations

from infer_api.manifest import ModelPlugin, ModelSupport, Requires

__all__ = ["PLUGIN"]

PLUGIN = ModelPlugin(
    name="llama",
    summary="Llama 2 and 3, Mistral, SmolLM2.",
    implementation="infer_model_llama.family:LlamaFamily",
    supports=ModelSupport(architectures={"hf": ("LlamaForCausalLM", "MistralForCausalLM"), "gguf": ("llama",)}),
    priority=50,
    requires=Requires(modules=("torch",), torch=">=2.11"),
)
