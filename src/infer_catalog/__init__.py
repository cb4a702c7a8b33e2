"""Catalog of the plugins that the infer project itself publishes: `catalog.json`, and no code.

infer finds it through the entry point group `infer.catalog` and reads the JSON beside this file without
importing the package, to name the distribution that would offer what is not installed.
"""

__all__: list[str] = []
