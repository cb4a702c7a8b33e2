"""A real `infer serve` in a process of its own, for tests that cross every distribution."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from fresh_venv import clean_environment

__all__ = ["Served", "free_port", "serving"]

START_LIMIT_S = 60.0
STOP_LIMIT_S = 20.0
SMALL = (
    "--kv-cache-memory",
    "8MiB",
    "--platform.cpu.threads",
    "1",
    "--max-num-seqs",
    "16",
    "--max-num-batched-tokens",
    "128",
)
"""Sizes that make tiny models start at once, and let a few requests share one step."""


@dataclass(frozen=True)
class Served:
    """One running server. `log` holds what it wrote to standard error."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        """What the server has written so far."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def child_pids(self) -> list[int]:
        """Processes that it has spawned to run code, the engine's among them; helpers of Python are left out."""
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text(encoding="ascii")
        pids = [int(word) for word in listed.split()]
        return [pid for pid in pids if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, wait for the end and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(STOP_LIMIT_S)


@contextlib.contextmanager
def serving(
    infer: Path, arguments: Sequence[str], folder: Path, *, sizes: Sequence[str] = SMALL, home: Path | None = None
) -> Iterator[Served]:
    """Run `infer serve ARGUMENTS` on a free port until the block ends; enters when `/ready` says so.

    `sizes` are more arguments; `home` is where fetched models lie, an empty folder unless given. Raises RuntimeError
    with the server's own words when it ends before, or takes longer than a minute.
    """
    folder.mkdir(parents=True, exist_ok=True)
    port, log = free_port(), folder / "server.log"
    command = [str(infer), "serve", *arguments, "--port", str(port), *sizes]
    environment = clean_environment() | {"INFER_HOME": str(home or folder / "home")}
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)
        try:
            served = Served(f"http://127.0.0.1:{port}", process, log)
            _wait_until_ready(served)
            yield served
        finally:
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(STOP_LIMIT_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(served: Served) -> None:
    deadline = time.monotonic() + START_LIMIT_S
    with httpx.Client(timeout=5.0, trust_env=False) as client:
        while time.monotonic() < deadline:
            if served.process.poll() is not None:
                raise RuntimeError(f"infer serve ended with {served.process.returncode}:\n{served.said()}")
            with contextlib.suppress(httpx.TransportError):
                if client.get(f"{served.url}/ready").status_code == 200:
                    return
            time.sleep(0.05)
    raise RuntimeError(f"infer serve was not ready within {START_LIMIT_S:.0f} s:\n{served.said()}")
