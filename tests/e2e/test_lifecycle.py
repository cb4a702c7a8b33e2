"""Starting and stopping: signals, a taken port, and an engine that dies."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from fresh_venv import clean_environment
from served import SMALL, Served, serving

ASKED = {"prompt": "Seven green bottles", "temperature": 0, "ignore_eos": True}


class Pending:
    """Requests that run while something happens to the server; each ends with what its client saw."""

    def __init__(self, url: str, **body: Any) -> None:
        self.first_byte = threading.Event()
        self.outcome = ""
        self._thread = threading.Thread(target=self._run, args=(url, {**ASKED, **body}))
        self._thread.start()

    def _run(self, url: str, body: dict[str, Any]) -> None:
        try:
            with (
                httpx.Client(base_url=url, timeout=30.0, trust_env=False) as http,
                http.stream("POST", "/v1/completions", json=body) as reply,
            ):
                parts = []
                for part in reply.iter_text():
                    self.first_byte.set()
                    parts.append(part)
                self.outcome = f"{reply.status_code} {''.join(parts)}"
        except httpx.TransportError as error:
            self.outcome = f"cut off: {error!r}"

    def join(self) -> str:
        self._thread.join(20)
        assert not self._thread.is_alive(), "the request still waits for an answer"
        return self.outcome


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


def test_a_killed_engine_ends_requests_readiness_and_the_server(infer: Path, llama: Path, tmp_path: Path) -> None:
    """B61: nothing hangs, nothing pretends."""
    with serving(infer, [str(llama), "--engine-process", "separate"], tmp_path) as served:
        streams, whole = (Pending(served.url, stream=stream, max_tokens=480, n=8) for stream in (True, False))
        assert streams.first_byte.wait(20)
        (engine,) = served.child_pids()
        os.kill(engine, signal.SIGKILL)
        statuses = list(_ready_statuses(served))
        assert 200 not in statuses[-1:], f"/ready still says 200: {statuses}"
        stream_end, whole_end = streams.join(), whole.join()
        assert '"error"' in stream_end.rpartition("data: ")[2], stream_end[-300:]
        assert "[DONE]" not in stream_end
        assert whole_end.startswith("503"), whole_end[:300]
        assert served.process.wait(20) == 1
        assert "the engine has stopped" in served.said()
        assert "Traceback" not in served.said()


def _ready_statuses(served: Served) -> Iterator[int]:
    """What /ready answers from now on, until it is no longer 200 or the server is gone; for five seconds at most."""
    deadline = time.monotonic() + 5
    with contextlib.suppress(httpx.TransportError), httpx.Client(base_url=served.url, trust_env=False) as http:
        while time.monotonic() < deadline:
            status = http.get("/ready").status_code
            yield status
            if status != 200:
                assert status == 503
                return
            time.sleep(0.02)
        return
    yield 0


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
