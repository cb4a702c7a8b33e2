"""Fetching a model into the cache, by the source plugin that serves it.

models/NAME/            complete, or not there
models/.NAME.lock       held while somebody fetches; a second fetch waits, then finds the model
models/.NAME.part/      being fetched; removed on failure, renamed to NAME when everything is checked
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from infer.config.sizes import format_size
from infer.model.source import KIND, Remote, known_formats, store_folder
from infer.observe.progress import Report, byte_progress
from infer.plugins.discovery import PluginIndex
from infer.plugins.pluginset import PluginSet
from infer_api.errors import ModelError
from infer_api.sources import FetchRequest, ModelSource, check_sha256

if TYPE_CHECKING:
    from infer.config.sections import InferConfig

__all__ = ["fetch"]

POLL_S = 0.2


def fetch(remote: Remote, config: InferConfig, index: PluginIndex) -> Path:
    """Fetch `remote` into its folder of the cache, with a progress bar, and return the folder.

    Safe to call from several processes at once. Raises ModelError, one line; nothing half-done is left behind.
    PluginError when the source is not installed or fails to start.
    """
    from filelock import FileLock

    plugins = PluginSet.pin([index.get(KIND, remote.source)], config.options)
    source: ModelSource = plugins.make(KIND, remote.source)
    request = FetchRequest(remote.name, remote.spec, known_formats(index))
    folder = store_folder(remote, config)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f".{folder.name}.lock")):
            if not folder.is_dir():
                _fetch_locked(source, request, folder, remote.sha256)
    except OSError as error:
        raise ModelError(_disk_message(remote.name, folder, error)) from error
    return folder


def _fetch_locked(source: ModelSource, request: FetchRequest, folder: Path, sha256: str) -> None:
    part = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # left by a process that was killed
    part.mkdir()
    try:
        with byte_progress(f"fetching {request.name}") as report, _watched(part, report) as expect:
            source.fetch(request, part, expect)
        if sha256:
            check_sha256(_one_file(part, request.name), sha256)
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _one_file(folder: Path, name: str) -> Path:
    files = [path for path in folder.rglob("*") if path.is_file()]
    if len(files) != 1:
        raise ModelError(f"{name} is pinned as one file, and its source brought {len(files)}; nothing was kept")
    return files[0]


class _Expect:
    """Told the number of bytes to come, once it is known: checks the disk and gives the bar its end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.total_bytes: int | None = None

    def __call__(self, download_bytes: int, peak_bytes: int) -> None:
        """`download_bytes` will arrive; up to `peak_bytes` lie on the disk at once. Raises ModelError when too many."""
        free = shutil.disk_usage(self._folder).free
        if peak_bytes > free:
            raise ModelError(
                f"not enough space on the disk of {self._folder.parent}: {format_size(peak_bytes)} are needed, "
                f"{format_size(free)} are free; free some, or choose another folder with --download-dir"
            )
        self.total_bytes = download_bytes


@contextmanager
def _watched(folder: Path, report: Report) -> Iterator[_Expect]:
    """Report the size of `folder` while it grows: sources write nowhere else."""
    expect, done = _Expect(folder), threading.Event()

    def watch() -> None:
        seen = 0
        while not done.wait(POLL_S):
            # Unpacking removes what was downloaded; a bar never runs backwards.
            seen = max(seen, _folder_bytes(folder))
            report(seen if expect.total_bytes is None else min(seen, expect.total_bytes), expect.total_bytes)

    thread = threading.Thread(target=watch, name="infer-fetch-progress", daemon=True)
    thread.start()
    try:
        yield expect
    finally:
        done.set()
        thread.join()


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # removed or renamed since it was listed
            continue
    return total


def _disk_message(name: str, folder: Path, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder.parent} is full; free some space, or choose another folder with --download-dir"
    if error.errno == errno.EFBIG:
        return f"a file of {name} is larger than files in {folder.parent} may be (see ulimit -f, or the file system)"
    return f"cannot fetch {name}: {error.strerror or error} ({error.filename or folder.parent})"
