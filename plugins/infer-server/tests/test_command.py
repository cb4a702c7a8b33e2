from __future__ import annotations

from types import SimpleNamespace

import pytest

from infer_api.errors import ConfigError
from infer_server.command import ServeCommand
from infer_server.listen import open_socket


def test_a_taken_port_is_an_error_before_the_model_loads() -> None:
    with open_socket("127.0.0.1", 0) as taken:
        settings = SimpleNamespace(host="127.0.0.1", port=taken.getsockname()[1])
        # No `open_services` here: reaching it would raise AttributeError.
        context = SimpleNamespace(config=SimpleNamespace(server=settings))
        with pytest.raises(ConfigError, match="in use"):
            ServeCommand().run(context, {}, None)
