"""Importing does nothing, and what can be known without running plugin code loads nothing heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import pytest

from members import Member, find_members
from sample_tree import write_member

HEAVY = {"torch", "transformers", "pydantic", "fastapi"}
MAX_CPU_MS = 150.0
RUNS = 5

PRELOAD = {
    "torch": "torch",
    "pydantic": "pydantic",
    "fastapi": "fastapi",
    "pytest": "pytest",
    "transformers": "transformers",
}
"""Third parties that are loaded once, before the fork: distribution -> module."""

# One process per distribution; each module is imported in a fork of it, so that it meets none of its siblings. Only the
# heavy third parties are there before, for they take seconds. A module that starts a thread or a process when it is
# imported is caught, too.
IMPORT_EACH_ALONE = """
import importlib, json, os, sys, threading, traceback, warnings
modules, preload = json.loads(sys.argv[1]), json.loads(sys.argv[2])
for name in preload:
    importlib.import_module(name)
failed = []
for name in modules:
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            warnings.simplefilter("error")
            threads = threading.active_count()
            importlib.import_module(name)
            status = 0 if threading.active_count() == threads else 2
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(status)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 0:
        failed.append(f"{name} ({'starts a thread' if status == 2 else 'fails'})")
print(json.dumps(failed))
"""

WORKER_WITHOUT_SERVER = """
import importlib, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {"fastapi", "starlette", "uvicorn", "zmq", "pydantic"}:
            raise ModuleNotFoundError(f"No module named {name!r} (blocked)", name=name)
sys.meta_path.insert(0, Absent())
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def run(code: str, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def failing_modules(member: Member) -> tuple[list[str], str]:
    """Modules of `member` that do not import alone with warnings as errors, and what they printed."""
    needs = " ".join(member.project.get("dependencies", []))
    preload = [module for name, module in PRELOAD.items() if name in needs]
    environment = {**os.environ, "PYTHONPATH": str(member.path / "src")}
    result = run(IMPORT_EACH_ALONE, json.dumps([*member.modules()]), json.dumps(preload), environment=environment)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1]), result.stderr


@pytest.mark.parametrize("member", find_members(), ids=lambda member: member.name)
def test_each_module_imports_alone_without_a_warning(member: Member) -> None:
    failed, printed = failing_modules(member)
    assert failed == [], printed


def test_a_module_that_warns_fails_or_starts_a_thread_is_found(tmp_path: Path) -> None:
    files = {
        "good.py": "import json\n",
        "needs_sibling.py": "import infer_x\ninfer_x.good.json\n",
        "warns.py": "import warnings\nwarnings.warn('old', DeprecationWarning)\n",
        "starts.py": "import threading, time\nthreading.Thread(target=time.sleep, args=(9,), daemon=True).start()\n",
    }
    write_member(tmp_path, "plugins/infer-x", "infer_x", files)
    (member,) = find_members(tmp_path)
    failed, _ = failing_modules(member)
    assert failed == ["infer_x.needs_sibling (fails)", "infer_x.starts (starts a thread)", "infer_x.warns (fails)"]


def test_the_runner_imports_where_neither_server_nor_pydantic_is_installed() -> None:
    (core,) = (member for member in find_members() if member.name == "infer-core")
    modules = [name for name in core.modules() if name.split(".")[1:2] == ["runner"]]
    assert modules, "the runner was not found"
    result = run(WORKER_WITHOUT_SERVER, *modules)
    assert result.returncode == 0, result.stderr


def infer_command() -> str:
    """Path of the installed command `infer`."""
    path = Path(sys.executable).with_name("infer")
    assert path.is_file(), "infer-core is not installed beside this Python"
    return str(path)


def imported_by(*arguments: str) -> set[str]:
    """Top-level modules that `infer ARGUMENTS` imports, as -X importtime tells."""
    command = [sys.executable, "-X", "importtime", infer_command(), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr[-2000:]
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in lines}


def cpu_ms(command: list[str]) -> float:
    """CPU time of one run, user and system, in milliseconds."""
    before = getrusage(RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    after = getrusage(RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


LIGHT = [("--help",), ("serve", "--help"), ("serve", "--help=Attention"), ("plugins", "list")]


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_command_that_only_reads_manifests_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    modules = imported_by(*arguments)
    assert "infer" in modules
    assert modules & HEAVY == set()


def test_import_time_would_tell_a_heavy_import() -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:]; import pydantic"
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    assert "pydantic" in {line.rsplit("|", 1)[-1].strip() for line in result.stderr.splitlines()}


@pytest.mark.parametrize("arguments", LIGHT, ids=" ".join)
def test_a_command_that_only_reads_manifests_starts_fast(arguments: tuple[str, ...]) -> None:
    """The smallest of several runs is compared, for a busy machine only ever adds time."""
    subprocess.run([sys.executable, infer_command(), *arguments], capture_output=True, check=True)  # writes __pycache__
    bare = min(cpu_ms([sys.executable, "-c", "pass"]) for _ in range(RUNS))
    runs = sorted(cpu_ms([sys.executable, infer_command(), *arguments]) for _ in range(RUNS))
    over, median = runs[0] - bare, runs[RUNS // 2] - bare
    print(f"infer {' '.join(arguments)}: {over:.0f} ms CPU over a bare interpreter's {bare:.0f}; median {median:.0f}")
    assert over < MAX_CPU_MS
