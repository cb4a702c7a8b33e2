"""Which place for the engine serves better: a thread of the server's process, or a process of its own?

    python tests/tools/bench_engine_process.py MODEL [--clients 16] [--tokens 64] [--repeat 3]

Starts `infer serve MODEL` in both ways by turns, lets concurrent clients stream completions of random-word
prompts from each, and prints medians of output tokens per second and of the time to the first token.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

__all__ = ["main"]

WAYS = ("inline", "separate")
WORDS = ("river", "stone", "paper", "cloud", "seven", "green", "engine", "window", "market", "quiet", "lamp")


@contextmanager
def serving(model: str, way: str) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    infer = str(Path(sys.executable).with_name("infer"))
    command = [infer, "serve", model, "--port", str(port), "--engine-process", way]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            time.sleep(0.2)
            try:
                if httpx.get(f"{url}/ready").status_code == 200:
                    break
            except httpx.TransportError:
                assert process.poll() is None, "the server did not start"
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=30)


async def one_client(http: httpx.AsyncClient, url: str, prompt: str, tokens: int) -> tuple[float, int]:
    """Seconds to the first token, and chunks with text."""
    body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": True}
    started, first, count = time.perf_counter(), 0.0, 0
    async with http.stream("POST", f"{url}/v1/completions", json=body, timeout=300) as reply:
        reply.raise_for_status()
        async for line in reply.aiter_lines():
            if line.startswith("data: {") and json.loads(line[6:])["choices"][0]["text"]:
                count += 1
                first = first or time.perf_counter() - started
    return first, count


async def load(url: str, clients: int, tokens: int, seed: int) -> tuple[float, float]:
    """(output tokens per second, median seconds to the first token) of `clients` at once."""
    rng = random.Random(seed)
    prompts = [" ".join(rng.choices(WORDS, k=100)) for _ in range(clients)]
    async with httpx.AsyncClient(limits=httpx.Limits(max_connections=None)) as http:
        started = time.perf_counter()
        results = await asyncio.gather(*(one_client(http, url, prompt, tokens) for prompt in prompts))
        elapsed = time.perf_counter() - started
    return clients * tokens / elapsed, statistics.median(first for first, _ in results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    results: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    for turn in range(options.repeat):
        for way in WAYS:
            with serving(options.model, way) as url:
                asyncio.run(load(url, 2, 4, seed=99))
                results[way].append(asyncio.run(load(url, options.clients, options.tokens, seed=turn)))
    for way, found in results.items():
        speed, first = (statistics.median(values) for values in zip(*found, strict=True))
        print(f"{way:>9}: {speed:7.1f} output tokens/s, {first:6.2f} s to the first token (medians of {len(found)})")


if __name__ == "__main__":
    main()
