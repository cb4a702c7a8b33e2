from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from infer.config.sections import InferConfig
from infer.model import pull
from infer.model.pull import fetch
from infer.model.source import Remote, store_folder
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ModelError, PluginError
from infer_api.sources import Expect, FetchRequest

Write = Callable[[FetchRequest, Path, Expect], None]
A = Remote("a", "shop", "spec of a", "shop--a")


class Shop:
    """A source that does what the test says; remembers its requests."""

    write: ClassVar[Write]
    requests: ClassVar[list[FetchRequest]]

    def __init__(self, options: Any) -> None:
        pass

    def fetch(self, request: FetchRequest, folder: Path, expect: Expect) -> None:
        type(self).requests.append(request)
        type(self).write(request, folder, expect)


@pytest.fixture
def index() -> PluginIndex:
    data = {"implementation": "acme_shop:Shop"}
    loader = PluginRecord("loaders", "one", "acme", "1", "acme", {"supports": {"suffixes": [".tiny"]}}, "compatible")
    return PluginIndex([PluginRecord("model_sources", "shop", "acme", "1", "acme_shop", data, "compatible"), loader])


@pytest.fixture
def config(tmp_path: Path) -> InferConfig:
    return InferConfig().replace(load={"home": str(tmp_path / "home")})


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Write], None]:
    """Sets what the source does."""
    module = ModuleType("acme_shop")
    module.Shop = Shop  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "acme_shop", module)
    Shop.requests = []
    return lambda write: setattr(Shop, "write", staticmethod(write))


def put(name: str, data: bytes = b"weights") -> Write:
    return lambda request, folder, expect: (folder / name).write_bytes(data) and None


def left_behind(config: InferConfig) -> list[str]:
    """What the cache holds but lock files."""
    return sorted(path.name for path in (Path(config.load.home) / "models").iterdir() if path.suffix != ".lock")


def test_what_the_source_brings_lies_in_the_cache(shop: Any, config: InferConfig, index: PluginIndex) -> None:
    shop(put("x.tiny"))
    folder = fetch(A, config, index)
    assert folder == Path(config.load.home) / "models" / "shop--a"
    assert (folder / "x.tiny").read_bytes() == b"weights"
    (request,) = Shop.requests
    assert (request.name, request.spec, request.formats.suffixes) == ("a", "spec of a", (".tiny",))
    assert left_behind(config) == ["shop--a"]


def test_a_pinned_file_is_checked_and_a_wrong_one_not_kept(shop: Any, config: InferConfig, index: PluginIndex) -> None:
    shop(put("x.tiny"))
    wrong = Remote("a", "shop", "", "wrong", "0" * 64)
    digest = hashlib.sha256(b"weights").hexdigest()
    with pytest.raises(ModelError, match=f"x.tiny is not what was expected: its SHA-256 is {digest}, not 000"):
        fetch(wrong, config, index)
    assert left_behind(config) == []
    right = Remote("a", "shop", "", "right", digest)
    assert (fetch(right, config, index) / "x.tiny").exists()


def test_a_pin_stands_for_one_file(shop: Any, config: InferConfig, index: PluginIndex) -> None:
    shop(lambda request, folder, expect: [(folder / name).touch() for name in "ab"] and None)
    with pytest.raises(ModelError, match="a is pinned as one file, and its source brought 2"):
        fetch(Remote("a", "shop", "", "a", "0" * 64), config, index)
    assert left_behind(config) == []


def test_a_source_that_is_not_installed_is_named(config: InferConfig) -> None:
    with pytest.raises(PluginError, match="no model_sources plugin is called 'shop'"):
        fetch(A, config, PluginIndex([]))


def test_too_little_space_ends_the_fetch_before_it_begins(
    shop: Any, config: InferConfig, index: PluginIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(request: FetchRequest, folder: Path, expect: Expect) -> None:
        expect(2**39, 3 * 2**39)
        pytest.fail("downloaded")

    shop(write)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("infer.model.pull.shutil.disk_usage", lambda path: usage(100, 0, 100))
    with pytest.raises(ModelError, match=r"not enough space .*: 1.5 TiB are needed, 100 B are free.*--download-dir"):
        fetch(A, config, index)
    assert left_behind(config) == []


@pytest.mark.parametrize(
    ("number", "says"),
    [
        (errno.ENOSPC, "the disk of {} is full; free some space, or choose another folder with --download-dir"),
        (errno.EFBIG, "a file of a is larger than files in {} may be (see ulimit -f, or the file system)"),
    ],
)
def test_a_disk_that_takes_no_more_is_named_and_nothing_is_left(
    shop: Any, config: InferConfig, index: PluginIndex, number: int, says: str
) -> None:
    def write(request: FetchRequest, folder: Path, expect: Expect) -> None:
        (folder / "half").write_bytes(b"x")
        raise OSError(number, os.strerror(number))

    shop(write)
    with pytest.raises(ModelError) as caught:
        fetch(A, config, index)
    assert str(caught.value) == says.format(store_folder(A, config).parent)
    assert left_behind(config) == []


def test_a_cache_that_cannot_be_written_is_named(shop: Any, index: PluginIndex, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    config = InferConfig().replace(load={"home": str(tmp_path / "file")})
    with pytest.raises(ModelError, match=r"cannot fetch a: (Not a directory|File exists) .*file"):
        fetch(A, config, index)


def test_pulls_of_one_model_at_the_same_time_fetch_it_once(shop: Any, config: InferConfig, index: PluginIndex) -> None:
    errors: list[Exception] = []
    gate = threading.Barrier(4)

    def one() -> None:
        gate.wait()
        try:
            fetch(A, config, index)
        except Exception as error:
            errors.append(error)

    shop(put("x.tiny"))
    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(Shop.requests) == 1
    assert (store_folder(A, config) / "x.tiny").read_bytes() == b"weights"


def test_what_a_killed_pull_left_is_replaced(shop: Any, config: InferConfig, index: PluginIndex) -> None:
    folder = store_folder(A, config)
    left = folder.with_name(f".{folder.name}.part")
    left.mkdir(parents=True)
    (left / "half").touch()
    shop(put("x.tiny"))
    assert [path.name for path in fetch(A, config, index).iterdir()] == ["x.tiny"]
    assert not left.exists()


def test_the_bar_follows_the_growing_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, told = [], threading.Event()

    def report(done: int, total: int | None) -> None:
        seen.append((done, total))
        told.set()

    monkeypatch.setattr(pull, "POLL_S", 0.01)
    (tmp_path / "x").write_bytes(b"12345")
    with pull._watched(tmp_path, report) as expect:
        expect(10, 10)
        told.clear()
        assert told.wait(5)
    assert seen[-1] == (5, 10)
