"""The source `hub`."""

from __future__ import annotations

from infer_api.manifest import Requires, SourcePlugin, SourceSupport
from infer_source_hub.options import HubOptions

__all__ = ["HUB"]

REPO = r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*"
FILE = r"/[\w./ -]+"
MODEL_FILE = r"[^/]*/[^/]*\.(gguf|safetensors|bin|pt|pth|onnx)"
"""A name of two parts that ends like this is a file that is missing on this machine, not a repository."""

HUB = SourcePlugin(
    name="hub",
    summary="Models of the Hugging Face hub.",
    implementation="infer_source_hub.source:HubSource",
    options=HubOptions,
    supports=SourceSupport(
        prefix="hub:",
        pattern=f"{REPO}({FILE})?",
        bare=f"(?!{MODEL_FILE}$){REPO}({FILE})?",
        usage="org/name or org/name/file",
        identity=("revision",),
    ),
    requires=Requires(modules=("huggingface_hub",)),
    priority=50,
)
