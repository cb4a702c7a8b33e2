"""`infer bench startup`: how long a new process takes until it serves, and the memory that takes."""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from infer_api.commands import CommandContext
from infer_api.errors import InferError
from infer_bench.options import BenchOptions, plain
from infer_bench.report import grid, shown, surroundings, write_json
from infer_bench.results import Metric, Results
from infer_bench.server import HOST, OwnServer, infer_program, own_server
from infer_bench.sse import EventParser

__all__ = ["METRICS", "measure_startup", "peak_rss_bytes", "run_startup"]

METRICS = (
    Metric("port_s", "port open, s", is_better="lower"),
    Metric("health_s", "/health 200, s", is_better="lower"),
    Metric("ready_s", "/ready 200, s", is_better="lower"),
    Metric("first_token_s", "first token, s", is_better="lower"),
    Metric("peak_rss_mib", "peak memory, MiB", is_better="lower"),
)
DEFAULT_REPEAT = 3
_FIRST_TOKEN_LIMIT_S = 600.0
_MIB = 2**20


def run_startup(context: CommandContext, arguments: Mapping[str, Any], options: BenchOptions) -> int:
    """Always 0; a server that does not start is an InferError."""
    del arguments
    repeat = options.repeat or DEFAULT_REPEAT
    results = measure_startup(context.config, infer_program(), options, repeat, context.say)
    name = context.config.model.name
    title = f"startup of {name}: seconds from exec, median of {repeat} new processes"
    sys.stdout.write(grid(title, [["", "median", "lowest", "highest"], *_rows(results)]))
    if options.json_file is not None:
        about = {
            "bench": "startup",
            "schema": 1,
            "model": name,
            "settings": {**plain(options, "startup"), "repeat": repeat},
        }
        write_json(options.json_file, {**about, **surroundings(), **results.to_dict()})
        context.say(f"written to {options.json_file}")
    return 0


def _rows(results: Results) -> list[list[str]]:
    runs = results.to_dict()["contenders"]["infer"]["runs"]
    rows = []
    for metric in results.metrics:
        values = [run[metric.key] for run in runs if metric.key in run]
        lowest, highest = (min(values), max(values)) if values else (None, None)
        rows.append([metric.label, *map(shown, (results.find_median("infer", metric), lowest, highest))])
    return rows


def measure_startup(
    config: Any, program: Sequence[str], options: BenchOptions, repeat: int, say: Callable[[str], None]
) -> Results:
    """Start the server, ask for one token, stop it; again and again. The first `options.warmup` do not count."""
    results = Results(METRICS, ["infer"])
    for run in range(-options.warmup, repeat):
        with own_server(config, program) as server:
            figures = _figures(server, options.ready_timeout, config.server.api_keys)
        if run >= 0:
            results.add("infer", figures)
        label = f"start {run + 1} of {repeat}" if run >= 0 else "warm-up"
        say(f"{label}: first token after {figures['first_token_s']:.2f} s")
    return results


def _figures(server: OwnServer, timeout_s: float, api_keys: Sequence[str]) -> dict[str, float]:
    figures = {
        "port_s": server.wait_for_port(timeout_s),
        "health_s": server.wait_for("/health", timeout_s),
        "ready_s": server.wait_for("/ready", timeout_s),
        "first_token_s": _first_token(server, api_keys),
    }
    peak = peak_rss_bytes(server.process.pid)
    return figures if peak is None else {**figures, "peak_rss_mib": peak / _MIB}


def _first_token(server: OwnServer, api_keys: Sequence[str]) -> float:
    """Seconds from exec to the first event of an answer. Raises InferError when there is none."""
    body = {"prompt": "Hello", "max_tokens": 1, "temperature": 0, "stream": True}
    headers = {"Content-Type": "application/json"}
    if api_keys:
        headers["Authorization"] = f"Bearer {api_keys[0]}"
    connection = http.client.HTTPConnection(HOST, server.port, timeout=_FIRST_TOKEN_LIMIT_S)
    try:
        connection.request("POST", "/v1/completions", json.dumps(body), headers)
        reply = connection.getresponse()
        if reply.status != 200:
            raise InferError(f"/v1/completions answered {reply.status}: {reply.read(400)!r}")
        parser = EventParser()
        while piece := reply.read1():
            for event in parser.feed(piece):
                if "choices" in json.loads(event.data):
                    return time.perf_counter() - server.started
        raise InferError("/v1/completions ended its stream without a token")
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise InferError(f"no first token from /v1/completions: {error}") from error
    finally:
        connection.close()


def peak_rss_bytes(pid: int) -> int | None:
    """The highest resident memory of a process and its children, each at its own peak; None where /proc has none.

    Pages that several of them share count for each.
    """
    folder = Path("/proc") / str(pid)
    try:
        status = (folder / "status").read_text(encoding="ascii", errors="replace")
        children = [
            int(word) for each in (folder / "task").iterdir() for word in (each / "children").read_text().split()
        ]
    except OSError:
        return None
    own = next((int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:")), None)
    return None if own is None else own + sum(peak_rss_bytes(child) or 0 for child in children)
