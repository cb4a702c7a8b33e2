from __future__ import annotations

from infer_api.manifest import write_manifest
from infer_openai.manifest import OPENAI
from infer_openai.routes import OpenAIRoutes


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_openai", check=True)


def test_the_implementation_is_the_routes_class() -> None:
    module, _, name = OPENAI.implementation.partition(":")
    assert (module, name) == (OpenAIRoutes.__module__, OpenAIRoutes.__name__)
