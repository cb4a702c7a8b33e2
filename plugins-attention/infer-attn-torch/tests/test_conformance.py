from __future__ import annotations

import pytest
import torch

from infer_testkit.attention import AttentionConformance


class TestTorch(AttentionConformance):
    backend = "torch"


class TestTorchInBfloat16(AttentionConformance):
    backend = "torch"
    dtype = torch.bfloat16
    tolerance = 4e-2


@pytest.mark.gpu
class TestTorchOnCuda(AttentionConformance):
    backend = "torch"
    device = "cuda"
    tolerance = 1e-4
