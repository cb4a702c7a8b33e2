"""Starting and stopping: signals, and a taken port. What happens when an engine dies is in test_faults.py."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fresh_venv import clean_environment
from pending import Pending
from served import SMALL, Served, serving


@pytest.fixture(params=["inline", "separate"])
def own_server(request: pytest.FixtureRequest, infer: Path, llama: Path, tmp_path: Path) -> Iterator[Served]:
    with serving(infer, [str(llama), "--engine-process", request.param], tmp_path) as served:
        yield served


def test_sigterm_lets_requests_finish_and_ends_with_status_0(own_server: Served) -> None:
    pending = Pending(own_server.url, stream=True, max_tokens=200)
    assert pending.first_byte.wait(20)
    children = own_server.child_pids()
    assert own_server.stop(signal.SIGTERM) == 0
    outcome = pending.join()
    assert outcome.startswith("200"), outcome
    assert outcome.endswith("data: [DONE]\n\n")
    assert "Traceback" not in own_server.said()
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []


def test_a_port_in_use_is_one_clear_line(infer: Path, llama: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [str(infer), "serve", str(llama), "--port", port, *SMALL],
            env=clean_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    assert done.returncode not in (0, -signal.SIGKILL)
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert port in done.stderr
    assert "--port" in done.stderr
