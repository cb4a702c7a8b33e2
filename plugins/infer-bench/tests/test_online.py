from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infer_bench.command import BenchCommand
from infer_bench.options import BenchOptions

ARGUMENTS = {"subcommand": "serve", "model": None}


def test_it_prints_and_writes_what_it_measured(
    serve_stub: Callable[..., Any], context: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "out.json"
    options = BenchOptions(
        base_url=serve_stub().url, num_prompts=3, input_len=5, output_len=2, goodput=("ttft:5000",), json_file=str(path)
    )
    assert BenchCommand().run(context, ARGUMENTS, options) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("serve of stub at http://127.0.0.1:")
    assert printed.splitlines()[1].split() == ["requests", "done", "3"]
    for words in ("good requests/s", "TTFT (time to first token), ms", "counted by: usage"):
        assert words in printed
    data = json.loads(path.read_text())
    assert set(data) == {
        "bench",
        "schema",
        "date",
        "settings",
        "machine",
        "versions",
        "targets",
        "contenders",
        "ratios",
        "rounds",
    }
    assert (data["bench"], data["schema"], data["settings"]["num_prompts"]) == ("serve", 1, 3)
    assert "against" not in data["settings"]
    assert data["contenders"]["server"]["median"]["goodput_share"] == 1.0
    assert "requests" not in data["rounds"][0]


def test_two_servers_are_shown_in_two_columns_with_ratios(
    serve_stub: Callable[..., Any], context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    url = serve_stub().url
    options = BenchOptions(base_url=url, peer_url=url, num_prompts=2, input_len=5, output_len=2, repeat=1)
    assert BenchCommand().run(context, ARGUMENTS, options) == 0
    assert capsys.readouterr().out.splitlines()[1].split() == ["server", "peer", "server", "vs", "peer"]


def test_failed_requests_are_told_and_make_the_status_1(
    serve_stub: Callable[..., Any], events: Any, context: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    stub = serve_stub(lambda body: [events.piece("a"), events.sse({"error": {"message": "broken"}})])
    options = BenchOptions(base_url=stub.url, num_prompts=3, input_len=5, output_len=2, num_warmups=0)
    assert BenchCommand().run(context, ARGUMENTS, options) == 1
    assert 'round 1, server: 3 failed, error event: {"message": "broken"}' in capsys.readouterr().out
