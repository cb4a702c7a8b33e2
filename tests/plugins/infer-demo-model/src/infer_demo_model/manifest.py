"""What the plugin offers, as data. Imports no torch."""

from __future__ import annotations

from infer_api.manifest import ModelPlugin, ModelSupport, Requires

__all__ = ["PLUGIN"]

PLUGIN = ModelPlugin(
    name="demo",
    summary="Sample model family of a third party: parallel attention and MLP, residuals scaled by depth.",
    implementation="infer_demo_model.family:DemoFamily",
    supports=ModelSupport(architectures={"hf": ("DemoForCausalLM",)}),
    priority=50,
    requires=Requires(modules=("torch",), torch=">=2.11"),
)
