"""Which hub, and how it is entered."""

from __future__ import annotations

from pydantic import Field

from infer_api.options import Options

__all__ = ["HubOptions"]


class HubOptions(Options):
    """Options of the source `hub`."""

    endpoint: str | None = Field(None, json_schema_extra={"env": ["HF_ENDPOINT"]})
    """Address of the model hub. Unset: the hub client's own default."""
    token: str | None = Field(None, json_schema_extra={"flags": ["--hf-token"], "env": ["HF_TOKEN"], "secret": True})
    """Access token for private and gated models."""
    revision: str | None = Field(None, json_schema_extra={"flags": ["--revision"]})
    """Branch, tag or commit of a model. Unset: the repository's main branch."""
