from __future__ import annotations

import errno
import threading
from collections import namedtuple
from pathlib import Path

import pytest

from infer.config.sections import LoadConfig
from infer.model import pull
from infer.model.aliases import Alias, Part
from infer.model.pull import fetch
from infer.model.source import Formats, Wheel, store_folder
from infer_api.errors import ModelError

FORMATS = Formats((".tiny",), ())


@pytest.fixture
def load(tmp_path: Path) -> LoadConfig:
    return LoadConfig(home=str(tmp_path / "home"))


def test_too_little_space_is_found_before_anything_is_fetched(
    load: LoadConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("infer.model.pull.shutil.disk_usage", lambda path: usage(100, 0, 100))
    monkeypatch.setattr("infer.model.pull_wheel.download_wheel", lambda *_: pytest.fail("downloaded"))
    alias = Alias("big", "", "0" * 64, 2**40, (Part("big==1", "0" * 64, 2**39, "*"),))
    with pytest.raises(ModelError, match=r"not enough space .*: 1.5 TiB are needed, 100 B are free.*--download-dir"):
        fetch(alias, load, FORMATS)
    assert not store_folder(alias, load).exists()


def test_a_disk_that_runs_full_leaves_nothing(load: LoadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(source: Wheel, folder: Path, *rest: object) -> None:
        (folder / "half").write_bytes(b"x")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pull, "fetch_wheel", write)
    with pytest.raises(ModelError, match="is full; free some space, or choose another folder with --download-dir"):
        fetch(Wheel("a"), load, FORMATS)
    assert [path.name for path in (Path(load.home) / "models").iterdir() if path.suffix != ".lock"] == []


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ModelError, match=r"cannot fetch a: (Not a directory|File exists) .*file"):
        fetch(Wheel("a"), LoadConfig(home=str(tmp_path / "file")), FORMATS)


def test_pulls_of_one_model_at_the_same_time_fetch_it_once(load: LoadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, errors, gate = [], [], threading.Barrier(4)

    def write(source: Wheel, folder: Path, *rest: object) -> None:
        calls.append(folder)
        (folder / "x.tiny").write_bytes(b"weights")

    def one() -> None:
        gate.wait()
        try:
            fetch(Wheel("a"), load, FORMATS)
        except Exception as error:
            errors.append(error)

    monkeypatch.setattr(pull, "fetch_wheel", write)
    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(calls) == 1
    assert (store_folder(Wheel("a"), load) / "x.tiny").read_bytes() == b"weights"


def test_what_a_killed_pull_left_is_replaced(load: LoadConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store_folder(Wheel("a"), load)
    left = folder.with_name(f".{folder.name}.part")
    left.mkdir(parents=True)
    (left / "half").touch()
    monkeypatch.setattr(pull, "fetch_wheel", lambda source, part, *rest: (part / "x.tiny").touch())
    assert [path.name for path in fetch(Wheel("a"), load, FORMATS).iterdir()] == ["x.tiny"]
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
