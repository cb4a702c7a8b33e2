"""Base class of a plugin's typed options. The only module of `infer_api` that imports pydantic."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

__all__ = ["Options"]


class Options(BaseModel):
    """Options of one plugin: frozen, closed, documented by the docstring under each field.

    An option is said once here; flag (`--attention.NAME.my-option`), environment name
    (`INFER_ATTENTION__NAME__MY_OPTION`), YAML path and documentation are derived from the JSON schema
    that `python -m infer_api.manifest PACKAGE` writes. Use tuples, not lists. Short spellings that people know go into
    the field: `Field(json_schema_extra={"flags": ["--short"], "env": ["KNOWN_NAME"], "secret": True})`; one that core
    or another plugin has already stays theirs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
