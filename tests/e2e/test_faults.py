"""B26 (c), B53, B61: the engine's process is killed or stands still under load. Measured times are printed (`-s`)."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from pending import Pending
from served import Served, serving

STREAMS, WHOLES = 4, 2


class Load:
    """Streams and whole replies that are all under way."""

    def __init__(self, served: Served) -> None:
        self.streams = [Pending(served.url, stream=True, max_tokens=480, n=2) for _ in range(STREAMS)]
        self.wholes = [Pending(served.url, max_tokens=480, n=2) for _ in range(WHOLES)]
        assert all(stream.first_byte.wait(20) for stream in self.streams)

    def check_told(self, began: float) -> float:
        """Every client has its error; returns the seconds until the last of them had it."""
        for stream in self.streams:
            outcome = stream.join()
            assert outcome.startswith("200"), outcome[:300]
            assert '"error"' in outcome.rpartition("data: ")[2], outcome[-300:]
            assert "[DONE]" not in outcome
        for whole in self.wholes:
            outcome = whole.join()
            assert outcome.startswith("503"), outcome[:300]
        return max(pending.ended_at for pending in (*self.streams, *self.wholes)) - began


@contextlib.contextmanager
def own_server(infer: Path, llama: Path, folder: Path, *options: str) -> Iterator[Served]:
    with serving(infer, [str(llama), "--engine-process", "separate", *options], folder) as served:
        yield served


def harm(served: Served, number: signal.Signals) -> tuple[int, float]:
    """Signal the engine's process, once both health checks have said 200 under load. Returns its id and when."""
    for path in ("/health", "/ready"):
        assert httpx.get(f"{served.url}{path}", trust_env=False).status_code == 200
    (engine,) = served.child_pids()
    os.kill(engine, number)
    return engine, time.monotonic()


def until_ready_says(served: Served, wanted: int, limit_s: float) -> float:
    """Seconds until /ready answers `wanted`; 0 stands for a closed port."""
    began = time.monotonic()
    with httpx.Client(base_url=served.url, trust_env=False) as http:
        while time.monotonic() - began < limit_s:
            try:
                status = http.get("/ready").status_code
            except httpx.TransportError:
                status = 0
            if status == wanted or (wanted == 503 and status == 0):
                return time.monotonic() - began
            time.sleep(0.02)
    raise AssertionError(f"/ready still says {status} after {limit_s} s")


def report(what: str, **seconds: float) -> None:
    print(f"\n{what}: " + ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()))


def check_serves(served: Served) -> None:
    reply = httpx.post(f"{served.url}/v1/completions", json={"prompt": "One", "max_tokens": 3}, trust_env=False)
    assert reply.status_code == 200, reply.text
    assert reply.json()["usage"]["completion_tokens"] >= 1


def test_a_killed_engine_ends_requests_readiness_and_the_server(infer: Path, llama: Path, tmp_path: Path) -> None:
    with own_server(infer, llama, tmp_path) as served:
        load = Load(served)
        _, began = harm(served, signal.SIGKILL)
        unready_s = until_ready_says(served, 503, 5)
        told_s = load.check_told(began)
        assert served.process.wait(20) == 1
        ended_s = time.monotonic() - began
        report("kill -9", not_ready=unready_s, clients_told=told_s, end=ended_s)
        assert "the engine has stopped" in served.said()
        assert "Traceback" not in served.said()


@pytest.mark.slow
def test_a_stopped_engine_is_unready_then_killed_and_the_server_ends(infer: Path, llama: Path, tmp_path: Path) -> None:
    with own_server(infer, llama, tmp_path, "--parallel.engine_kill_s", "3.5") as served:
        load = Load(served)
        engine, began = harm(served, signal.SIGSTOP)
        unready_s = until_ready_says(served, 503, 5)
        assert served.process.poll() is None
        assert httpx.get(f"{served.url}/health", trust_env=False).status_code == 200
        told_s = load.check_told(began)
        assert served.process.wait(20) == 1
        ended_s = time.monotonic() - began
        report("SIGSTOP", not_ready=unready_s, clients_told=told_s, end=ended_s)
        assert "no sign of life" in served.said()
        assert not Path(f"/proc/{engine}").exists()


@pytest.mark.slow
def test_a_killed_engine_is_started_again_where_that_is_configured(infer: Path, llama: Path, tmp_path: Path) -> None:
    with own_server(infer, llama, tmp_path, "--on-engine-death", "restart") as served:
        load = Load(served)
        engine, began = harm(served, signal.SIGKILL)
        unready_s = until_ready_says(served, 503, 5)
        meanwhile = httpx.post(f"{served.url}/v1/completions", json={"prompt": "One"}, trust_env=False)
        assert meanwhile.status_code == 503
        assert int(meanwhile.headers["retry-after"]) >= 1
        assert meanwhile.json()["error"]["code"] == "engine_restarting"
        told_s = load.check_told(began)
        until_ready_says(served, 200, 30)
        again_s = time.monotonic() - began
        report("restart", not_ready=unready_s, clients_told=told_s, serves_again=again_s)
        check_serves(served)
        assert served.child_pids() != [engine]
        assert served.stop(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_stopped_engine_is_started_again_within_the_usual_limits(infer: Path, llama: Path, tmp_path: Path) -> None:
    with own_server(infer, llama, tmp_path, "--on-engine-death", "restart") as served:
        load = Load(served)
        _, began = harm(served, signal.SIGSTOP)
        unready_s = until_ready_says(served, 503, 5)
        told_s = load.check_told(began)
        until_ready_says(served, 200, 30)
        again_s = time.monotonic() - began
        report("SIGSTOP", not_ready=unready_s, clients_told=told_s, serves_again=again_s)
        check_serves(served)


@pytest.mark.slow
def test_an_engine_that_is_killed_again_and_again_ends_the_server(infer: Path, llama: Path, tmp_path: Path) -> None:
    options = ("--on-engine-death", "restart", "--parallel.max_restarts", "2")
    with own_server(infer, llama, tmp_path, *options) as served:
        for _ in range(3):
            until_ready_says(served, 200, 30)
            harm(served, signal.SIGKILL)
            until_ready_says(served, 503, 5)
        assert served.process.wait(20) == 1
        assert "after 2 restarts within ten minutes" in served.said()


def test_two_requests_with_one_id_at_once_get_their_own_answers(server: Served) -> None:
    """B53: ids of clients are echoed, and are no keys."""
    prompts = ["Seven green bottles", "A tale of two"] * 4

    def ask(prompt: str, request_id: str) -> tuple[str, str]:
        body = {"prompt": prompt, "temperature": 0, "max_tokens": 40, "ignore_eos": True}
        headers = {"X-Request-Id": request_id}
        reply = httpx.post(f"{server.url}/v1/completions", json=body, headers=headers, timeout=30, trust_env=False)
        return reply.json()["choices"][0]["text"], reply.headers["x-request-id"]

    alone = {prompt: ask(prompt, f"alone-{at}")[0] for at, prompt in enumerate(prompts[:2])}
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(lambda prompt: ask(prompt, "the-same"), prompts))
    assert together == [(alone[prompt], "the-same") for prompt in prompts]
