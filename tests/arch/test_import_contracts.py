"""Who may import whom: the contracts hold here, and each of them fails when it is violated."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from members import ROOT
from sample_tree import write_member

TOOL = ROOT / "tests" / "tools" / "import_contracts.py"

CORE = {
    "cli/main.py": "import infer.service.llm\n",
    "service/llm.py": "import infer.engine.loop\n",
    "engine/loop.py": "import infer.runner.run\nimport infer.scheduler.plan\n",
    "scheduler/plan.py": "import infer.kv.blocks\n",
    "runner/run.py": "import infer.kv.blocks\nimport torch\n",
    "kv/blocks.py": "import infer.config.load\n",
    "config/load.py": "import infer_api.values\n",
    "config/schema.py": "import pydantic\n",
}


def make_tree(root: Path) -> dict[str, Path]:
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n"
    return {
        "infer_api": write_member(root, "core/infer-api", "infer_api", {"values.py": typed}),
        "infer": write_member(root, "core/infer-core", "infer", CORE),
        "infer_testkit": write_member(root, "core/infer-testkit", "infer_testkit", {"kit.py": "import infer.kv\n"}),
        "infer_one": write_member(root, "plugins/infer-one", "infer_one", {"p.py": "import infer_api.values\n"}),
        "infer_two": write_member(root, "plugins-x/infer-two", "infer_two", {"p.py": "import infer_api.values\n"}),
    }


def check(root: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), str(root)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


def test_this_repository_keeps_every_contract() -> None:
    result = check(ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "0 broken" in result.stdout


def test_a_tree_that_keeps_the_contracts_passes(tmp_path: Path) -> None:
    make_tree(tmp_path)
    result = check(tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize(
    ("package", "file", "text", "contract"),
    [
        ("infer_api", "bad.py", "import infer.kv.blocks\n", "infer_api imports no other part"),
        ("infer_api", "bad.py", "import torch\n", "infer_api loads nothing heavy"),
        ("infer_api", "bad.py", "import pydantic\n", "only infer_api.options loads pydantic"),
        ("infer", "kv/bad.py", "import infer_one.p\n", "infer imports no plugin"),
        ("infer", "kv/bad.py", "import infer_testkit.kit\n", "infer imports no plugin"),
        ("infer", "kv/bad.py", "import infer.runner.run\n", "inside infer, higher imports lower"),
        ("infer", "config/bad.py", "def late():\n    import infer.cli.main\n", "inside infer, higher imports lower"),
        ("infer", "scheduler/bad.py", "import infer.runner.run\n", "inside infer, higher imports lower"),
        ("infer", "misc/bad.py", "", "inside infer, higher imports lower"),
        ("infer", "runner/bad.py", "import zmq\n", "the runner needs neither"),
        ("infer", "runner/bad.py", "import infer.config.schema\n", "the runner needs neither"),
        ("infer_testkit", "bad.py", "import infer_one.p\n", "the test kit imports no plugin"),
        ("infer_one", "bad.py", "import infer.kv.blocks\n", "plugins import infer_api only"),
        ("infer_one", "bad.py", "import infer_two.p\n", "plugins do not import each other"),
    ],
)
def test_a_violation_is_found(tmp_path: Path, package: str, file: str, text: str, contract: str) -> None:
    target = make_tree(tmp_path)[package] / file
    target.parent.mkdir(exist_ok=True)
    (target.parent / "__init__.py").touch()
    target.write_text(text, encoding="utf-8")
    result = check(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    broken = [line for line in result.stdout.splitlines() if "BROKEN" in line]
    assert any(contract in line for line in broken), result.stdout + result.stderr


def test_an_import_for_type_checking_counts_for_the_direction(tmp_path: Path) -> None:
    bad = make_tree(tmp_path)["infer_one"] / "bad.py"
    bad.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import infer.kv.blocks\n", encoding="utf-8"
    )
    assert check(tmp_path).returncode == 1
