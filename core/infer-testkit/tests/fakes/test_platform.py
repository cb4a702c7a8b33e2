from __future__ import annotations

import pytest
import torch

from infer_api.errors import PluginError
from infer_api.specs import Reason
from infer_testkit.fakes.platform import FakePlatform


def test_memory_shrinks_with_every_static_tensor_and_runs_out() -> None:
    platform = FakePlatform(total_bytes=100)
    platform.static((20,), torch.float32)
    assert platform.memory().free_bytes == 20
    with pytest.raises(PluginError, match="20 are free"):
        platform.static((6,), torch.float32)


def test_a_copy_happens_when_it_is_waited_for() -> None:
    platform, dst = FakePlatform(), torch.zeros(3)
    event = platform.copy_async(dst, torch.ones(3))
    assert not dst.any()
    event.wait()
    assert dst.all()


def test_a_key_is_captured_once_and_replays_are_counted() -> None:
    platform, calls = FakePlatform(), []
    graph = platform.capture("k", lambda: calls.append(1), ())
    graph.replay()
    assert (len(calls), graph.num_replays) == (2, 1)
    with pytest.raises(PluginError, match="before"):
        platform.capture("k", lambda: None, ())


def test_an_absent_device_says_why() -> None:
    assert FakePlatform(missing="no such chip").probe() == Reason("no such chip")
