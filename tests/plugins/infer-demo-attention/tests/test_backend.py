"""The test kit's conformance class is the whole test of a backend."""

from __future__ import annotations

from infer_api.attention import AttentionBackend
from infer_testkit.attention import AttentionConformance
from infer_testkit.plugin import make_plugin


class TestDemo(AttentionConformance):
    backend = "demo"


class TestDemoWithItsOptionsSet(AttentionConformance):
    """Prompts in small pieces and sums in double precision: then the reference is met much more closely."""

    backend = "demo"
    tolerance = 1e-6

    def make_backend(self) -> AttentionBackend:
        backend: AttentionBackend = make_plugin("attention", "demo", query_chunk=3, accumulate="float64")
        return backend
