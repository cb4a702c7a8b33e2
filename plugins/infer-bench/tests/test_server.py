from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from infer_api.errors import ConfigError, InferError
from infer_bench.server import config_flags, own_server


def test_the_configuration_becomes_flags_without_secrets_and_the_address(context: Any) -> None:
    context.api_keys = ("secret",)
    assert config_flags(context.config) == [
        "--platform.cpu.threads=2",
        "--model.name=tiny",
        "--model.dtype=float32",
        "--platform.name=auto",
        "--server.docs=true",
    ]


def test_a_server_is_waited_for_and_ended(context: Any, fake_infer: tuple[str, ...], tmp_path: Path) -> None:
    context.api_keys = ("secret",)
    with own_server(context.config, fake_infer, ["--x=1"]) as server:
        opened, ready = server.wait_for_port(20.0), server.wait_for("/ready", 20.0)
        assert 0.1 < opened < ready
    assert server.process.returncode is not None
    words = (tmp_path / "argv.txt").read_text().split()
    assert (words[0], words[-2]) == ("serve", "--config")
    assert words.index("--x=1") > words.index("--model.name=tiny")
    assert "secret" not in " ".join(words)
    assert not server.log.exists()


def test_a_server_that_ends_is_an_error_with_its_last_words(context: Any, fake_infer: tuple[str, ...]) -> None:
    context.model = "broken"
    with (
        own_server(context.config, fake_infer) as server,
        pytest.raises(InferError, match="status 1: no such model: broken"),
    ):
        server.wait_for_port(20.0)


def test_a_server_that_takes_too_long_is_an_error(context: Any, fake_infer: tuple[str, ...]) -> None:
    with own_server(context.config, fake_infer) as server, pytest.raises(InferError, match="--ready-timeout"):
        server.wait_for("/ready", 0.01)


def test_tls_is_refused(context: Any, fake_infer: tuple[str, ...]) -> None:
    config = context.config
    config.server.tls_certificate = "cert.pem"
    with pytest.raises(ConfigError, match="--base-url"), own_server(config, fake_infer):
        pass
