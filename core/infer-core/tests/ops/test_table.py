from __future__ import annotations

import pytest
import torch

from infer.ops.table import REFERENCE, OpTable
from infer_api.errors import PluginError
from infer_api.ops import OpImpl, OpSite


class Offer:
    """Serves the ops it is told, and remembers the sites it was asked for."""

    def __init__(self, *ops: str) -> None:
        self.ops = ops
        self.sites: list[OpSite] = []

    def bind(self, site: OpSite) -> OpImpl | None:
        self.sites.append(site)
        return (lambda *tensors, out=None: f"{site.op} by offer") if site.op in self.ops else None


def test_without_offers_the_reference_serves() -> None:
    table = OpTable([], "cpu", "float32")
    x = torch.ones(1, 4)
    torch.testing.assert_close(table.bind("silu_mul")(x), torch.full((1, 2), 0.731058))
    assert [(each.site.op, each.winner) for each in table.bound()] == [("silu_mul", REFERENCE)]


def test_the_first_offer_that_binds_wins() -> None:
    table = OpTable([("a", Offer("rms_norm")), ("b", Offer("rms_norm", "silu_mul"))], "cpu", "float32")
    assert table.bind("silu_mul")() == "silu_mul by offer"
    table.bind("rms_norm", eps=1e-5)
    table.bind("gelu_tanh_mul")
    winners = [(each.site.op, each.winner) for each in table.bound()]
    assert winners == [("silu_mul", "b"), ("rms_norm", "a"), ("gelu_tanh_mul", REFERENCE)]


def test_an_offer_sees_the_whole_site() -> None:
    offer = Offer()
    OpTable([("a", offer)], "cuda", "bfloat16", max_rows=64).bind("rms_norm", eps=1e-6, width=8)
    assert offer.sites == [OpSite("rms_norm", "cuda", "bfloat16", {"eps": 1e-6, "width": 8}, 64)]


def test_equal_sites_are_bound_once_and_different_ones_apart() -> None:
    offer = Offer("rms_norm")
    table = OpTable([("a", offer)], "cpu", "float32")
    first = table.bind("rms_norm", eps=1e-5, width=8)
    assert table.bind("rms_norm", width=8, eps=1e-5) is first
    assert table.bind("rms_norm", eps=1e-6, width=8) is not first
    assert len(offer.sites) == 2


def test_an_op_that_only_an_offer_has_can_be_bound() -> None:
    assert OpTable([("a", Offer("fancy"))], "cpu", "float32").bind("fancy")() == "fancy by offer"


def test_an_unknown_op_is_an_error_with_a_near_miss() -> None:
    with pytest.raises(
        PluginError, match=r"op 'rms_nrm' for cpu and float32 \(offers asked: a;.*Did you mean 'rms_norm'"
    ):
        OpTable([("a", Offer())], "cpu", "float32").bind("rms_nrm")
