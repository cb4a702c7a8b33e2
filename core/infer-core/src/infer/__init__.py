"""infer: a plugin-first inference framework for language models.

`from infer import LLM, SamplingParams` is the Python entrance; `infer --help` the other one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from infer.service.llm import LLM as LLM
    from infer_api.requests import SamplingParams as SamplingParams

__version__ = "0.1.0"
__all__ = ["LLM", "SamplingParams", "__version__"]


def __getattr__(name: str) -> Any:
    # Lazy: `infer --help` imports this package and must not pay for torch.
    if name == "LLM":
        from infer.service.llm import LLM

        return LLM
    if name == "SamplingParams":
        from infer_api.requests import SamplingParams

        return SamplingParams
    raise AttributeError(f"module 'infer' has no attribute {name!r}")
