"""Conformance classes, one per contract, and fakes, for plugins of infer and for third parties."""
