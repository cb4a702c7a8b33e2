"""A real `infer serve` that sends its spans to a real collector."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

served = pytest.importorskip("served", reason="the tools to start a server are in the repository")
tiny_llama = pytest.importorskip("tiny_llama")

INFER = Path(sys.executable).with_name("infer")


@pytest.mark.slow
def test_a_server_sends_a_span_per_choice_and_the_last_ones_when_it_ends(
    collector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    model = tiny_llama.write_tiny_llama(tmp_path / "tiny-llama")
    arguments = [str(model), "--engine-process", "inline", "--served-model-name", "tiny"]
    with (
        served.serving(INFER, arguments, tmp_path / "server") as server,
        httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client,
    ):
        body = {"model": "tiny", "prompt": "the sea", "max_tokens": 4, "n": 2, "ignore_eos": True}
        assert client.post("/v1/completions", json=body, headers={"X-Request-Id": "mine-1"}).status_code == 200
        deadline = time.monotonic() + 10
        while len(collector.spans) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert [span.name for span in collector.spans] == ["text_completion tiny"] * 2
        body = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        assert client.post("/v1/chat/completions", json=body).status_code == 200
        assert server.stop() == 0
    assert [span.name for span in collector.spans][2:] == ["chat tiny"]
    first = {pair.key: pair.value for pair in collector.spans[0].attributes}
    assert first["infer.client.request_id"].string_value == "mine-1"
    assert first["gen_ai.usage.output_tokens"].int_value == 4
    assert first["gen_ai.server.time_to_first_token"].double_value > 0
