"""schemathesis over the server's own OpenAPI document: no 5xx, no hang, and nothing that the document does not say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fresh_venv import clean_environment
from served import SMALL, serving
from tiny_llama import write_tiny_llama

BIN = Path(sys.executable).parent
CHECKS = "all"
NOT_CHECKED = "positive_data_acceptance"
"""That whatever fits the schema is accepted: "either prompt or messages", a vocabulary's size and the like do not fit
into one."""


def run_schemathesis(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Exit status, its report, and the server's log."""
    model = write_tiny_llama(folder / "tiny-llama")
    with serving(
        BIN / "infer", [str(model), "--engine-process", "inline"], folder, sizes=(*SMALL, "--max-model-len", "64")
    ) as served:
        done = subprocess.run(
            [
                *(str(BIN / "schemathesis"), "run", f"{served.url}/openapi.json", "--checks", CHECKS),
                *("--exclude-checks", NOT_CHECKED, "--seed", "1", "--request-timeout", "20", "--no-color", *arguments),
            ],
            env=clean_environment(),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        log = served.said()
    return done.returncode, done.stdout + done.stderr, log


def test_a_few_requests_from_the_schema_are_answered_as_it_says(tmp_path: Path) -> None:
    status, report, log = run_schemathesis(tmp_path, "--phases", "fuzzing", "--max-examples", "5")
    assert status == 0, report
    assert "Traceback" not in log


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_thousands_of_requests_from_the_schema_are_answered_as_it_says(tmp_path: Path) -> None:
    status, report, log = run_schemathesis(tmp_path, "--max-examples", "200")
    assert status == 0, report
    assert "Traceback" not in log
