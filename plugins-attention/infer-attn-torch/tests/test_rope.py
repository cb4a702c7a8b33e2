from __future__ import annotations

import pytest
import torch

from infer_api.rope import RopeSpec
from infer_attn_torch.rope import Angles
from infer_testkit.reference import rotary_tables, rotate


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("size", [16, 10])
def test_turning_equals_the_reference(interleaved: bool, size: int) -> None:
    tables = rotary_tables(RopeSpec(size, interleaved=interleaved), 40)
    x_THK, positions_T = torch.randn(5, 3, 16), torch.tensor([0, 1, 39, 7, 7])
    turned = Angles.of(tables, positions_T).turn(x_THK)
    torch.testing.assert_close(turned.double(), rotate(x_THK, tables, positions_T), rtol=1e-6, atol=1e-6)


def test_small_floats_are_turned_in_float32() -> None:
    tables = rotary_tables(RopeSpec(16), 40)
    x_THK, positions_T = torch.randn(5, 3, 16).bfloat16(), torch.tensor([0, 1, 39, 7, 7])
    turned = Angles.of(tables, positions_T).turn(x_THK)
    assert torch.equal(turned, Angles.of(tables, positions_T).turn(x_THK.float()).bfloat16())
