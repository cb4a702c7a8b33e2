"""Wheels of our distributions, and virtual environments that hold those and nothing else of ours.

Third parties (torch alone is a gigabyte) are not installed again: a fresh environment sees the ones of the running
environment through a folder of links that leaves out whatever is ours, editable or not.

    running environment     site-packages:  torch  pydantic  infer_api.pth  infer_core-0.1.0.dist-info …
    fresh environment       linked:         torch  pydantic            site-packages:  our wheels, installed by pip
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FreshVenv", "build_wheels", "clean_environment", "link_third_parties", "make_venv"]

OURS = ("infer", "_editable_impl_infer", "__editable__")
"""How names of our distributions, packages and editable installs begin."""


def build_wheels(projects: Iterable[Path], house: Path) -> tuple[Path, ...]:
    """Build one wheel of each project folder with pip, without the network, and return all of them."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    _checked([*command, "--wheel-dir", str(house), *map(str, projects)], clean_environment())
    return tuple(sorted(house.glob("*.whl")))


def link_third_parties(folder: Path) -> Path:
    """Fill `folder` with links to everything installed here that is not ours."""
    folder.mkdir(parents=True)
    for place in dict.fromkeys(sysconfig.get_paths()[key] for key in ("purelib", "platlib")):
        for entry in Path(place).iterdir():
            if not entry.name.startswith(OURS) and entry.suffix != ".pth":
                (folder / entry.name).symlink_to(entry)
    return folder


def make_venv(folder: Path, third_parties: Path) -> FreshVenv:
    """A new virtual environment that sees the linked third parties, pip among them, and nothing of ours."""
    _checked([sys.executable, "-m", "venv", "--without-pip", str(folder)], clean_environment())
    venv = FreshVenv(folder)
    purelib = _checked([str(venv.python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], {})
    Path(purelib.strip(), "third_parties.pth").write_text(f"{third_parties}\n", encoding="utf-8")
    return venv


@dataclass(frozen=True)
class FreshVenv:
    """One virtual environment."""

    path: Path

    @property
    def python(self) -> Path:
        return self.path / "bin" / "python"

    def install(self, wheels: Iterable[Path]) -> None:
        """Install exactly these wheel files."""
        self._pip("install", "--no-index", "--no-deps", *map(str, wheels))

    def uninstall(self, *distributions: str) -> None:
        self._pip("uninstall", "--yes", *distributions)

    def run(self, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment ("infer", "python") to its end, whatever its exit status."""
        command = [str(self.path / "bin" / program), *arguments]
        environment = clean_environment() | variables
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    def _pip(self, *arguments: str) -> None:
        command = [str(self.python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
        _checked(command, clean_environment())


def clean_environment() -> dict[str, str]:
    """The environment of this process without what would steer Python or infer."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("INFER_", "PYTHON", "COV_"))}


def _checked(command: list[str], environment: Mapping[str, str]) -> str:
    """Standard output of a command; its whole output is in the error when it fails."""
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout
