from __future__ import annotations

from types import SimpleNamespace

import pytest

from infer_api.errors import ConfigError
from infer_server.command import ServeCommand
from infer_server.listen import open_socket


def run(settings: SimpleNamespace) -> int:
    # No `open_services` here: reaching it would raise AttributeError.
    return ServeCommand().run(SimpleNamespace(config=SimpleNamespace(server=settings)), {}, None)


def test_a_taken_port_is_an_error_before_the_model_loads(settings: SimpleNamespace) -> None:
    with open_socket("127.0.0.1", 0) as taken:
        settings.port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="in use"):
            run(settings)


def test_a_certificate_without_its_key_is_an_error_before_the_model_loads(settings: SimpleNamespace) -> None:
    settings.tls_certificate = "/some/chain.pem"
    with pytest.raises(ConfigError, match="--ssl-certfile needs --ssl-keyfile"):
        run(settings)
