from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from infer_api.errors import ModelError
from infer_source_pypi.wheels import RUN_PIP, download_wheel, opened

MakeWheel = Callable[[str, Mapping[str, bytes]], Path]


def test_a_wheel_lies_in_the_folder_and_nothing_else_does(make_wheel: MakeWheel, folder: Path) -> None:
    made = make_wheel("one", {"one/x.tiny": b"weights"})
    wheel = download_wheel("one", folder / "wheels")
    assert wheel.read_bytes() == made.read_bytes()
    assert list((folder / "wheels").iterdir()) == [wheel]


def test_pip_collects_its_temporary_files_where_it_is_told(tmp_path: Path) -> None:
    code = RUN_PIP.replace("runpy.run_module('pip', run_name='__main__', alter_sys=True)", "print(tempfile.mkdtemp())")
    assert code != RUN_PIP
    shown = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert Path(shown.stdout.strip()).parent == tmp_path


def test_a_package_that_does_not_exist_is_no_such_model(make_wheel: MakeWheel, folder: Path) -> None:
    with pytest.raises(ModelError, match="no such model: the package index has no wheel for absent") as caught:
        download_wheel("absent", folder / "wheels")
    assert "\n" not in str(caught.value)


def test_without_a_network_the_message_says_so(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")  # the discard port: nothing listens
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    with pytest.raises(ModelError, match="no network: pip could not reach its package index for absent"):
        download_wheel("absent", folder / "wheels")


def test_a_python_without_pip_says_how_to_get_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("infer_source_pypi.wheels.RUN_PIP", "raise ImportError('No module named pip')")
    with pytest.raises(ModelError, match="fetching one needs pip, which this Python lacks: .* -m ensurepip"):
        download_wheel("one", folder / "wheels")


def test_a_damaged_wheel_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "one-1.0-py3-none-any.whl"
    broken.write_bytes(b"no zip")
    with pytest.raises(ModelError, match="one-1.0-py3-none-any.whl is damaged"), opened(broken):
        pass


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (
            "  WARNING: Attempting to resume incomplete download (1 MB/9 MB, attempt 1)\n"
            "error: incomplete-download\n\n× Download failed after 6 attempts because not enough bytes were received\n"
            "╰─> URL: there\n\nnote: This is an issue with network connectivity, not pip.\n"
            "hint: Use --resume-retries to configure resume attempt limit.\n",
            "Download failed after 6 attempts because not enough bytes were received",
        ),
        ("ERROR: one has an odd name\nERROR: it goes on\nhint: give up\n", "ERROR: one has an odd name"),
        ("ERROR: Exception:\nTraceback (most recent call last):\n  x\nKeyError: 'y'\n", "KeyError: 'y'"),
        ("it broke\n\n[notice] A new release of pip is available\nWARNING: Retrying\n", "it broke"),
        ("", "no message"),
    ],
)
def test_of_all_that_pip_says_the_cause_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, output: str, says: str
) -> None:
    monkeypatch.setattr(
        "infer_source_pypi.wheels.RUN_PIP",
        f"import sys; sys.stderr.buffer.write({output.encode()!r}); sys.exit(1)",
    )
    with pytest.raises(ModelError) as caught:
        download_wheel("one", folder / "wheels")
    assert str(caught.value) == f"pip could not download one: {says}"


def test_a_file_that_may_not_grow_as_large_is_an_error_of_the_disk(
    make_wheel: MakeWheel, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip runs under a real limit; core turns the error into a sentence that names its folder."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); {RUN_PIP}"
    monkeypatch.setattr("infer_source_pypi.wheels.RUN_PIP", limited)
    make_wheel("one", {"one/x.tiny": b"weights" * 1000})
    with pytest.raises(OSError, match="File too large") as caught:
        download_wheel("one", folder / "wheels")
    assert caught.value.errno == errno.EFBIG


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_an_error_of_the_disk(folder: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr("infer_source_pypi.wheels.RUN_PIP", f"raise OSError({number}, 'no room')")
    with pytest.raises(OSError, match=re.escape(os.strerror(number))) as caught:
        download_wheel("one", folder / "wheels")
    assert caught.value.errno == number
