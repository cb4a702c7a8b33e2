from __future__ import annotations

import pytest

from infer_api import errors
from infer_api.errors import EngineDeadError, InferError, ModelError, NotSliceable, PluginError, RequestError


def test_every_error_is_an_infer_error_and_exported() -> None:
    found = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert found == set(errors.__all__)
    assert all(issubclass(getattr(errors, name), InferError) for name in found)


def test_a_request_error_carries_what_a_reply_needs() -> None:
    error = RequestError("n is 0", param="n")
    assert (str(error), error.message, error.param, error.code, error.status) == (
        "n is 0",
        "n is 0",
        "n",
        "invalid_value",
        400,
    )


def test_a_tensor_that_cannot_be_cut_says_where_it_can() -> None:
    error = NotSliceable("blk.0.q", multiple=32)
    assert error.multiple == 32
    assert str(error) == "blk.0.q: it can only be cut at multiples of 32"
    assert isinstance(error, ModelError)


@pytest.mark.parametrize("kind", [PluginError, EngineDeadError])
def test_the_branches_are_apart(kind: type[InferError]) -> None:
    assert not issubclass(kind, ModelError)
