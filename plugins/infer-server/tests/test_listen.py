from __future__ import annotations

import socket

import pytest

from infer_api.errors import ConfigError
from infer_server.listen import open_socket, url_of


def test_a_free_port_is_taken_and_named() -> None:
    with open_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            pass


def test_a_port_in_use_is_one_clear_line() -> None:
    with open_socket("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} on 127.0.0.1 is in use.*--port") as caught:
            open_socket("127.0.0.1", port)
        assert "\n" not in str(caught.value)


def test_an_address_that_is_not_ours_names_the_option() -> None:
    with pytest.raises(ConfigError, match="--host"):
        open_socket("203.0.113.7", 0)
    with pytest.raises(ConfigError, match="--host"):
        open_socket("not a host", 0)


def test_every_interface_is_shown_as_this_machine() -> None:
    with open_socket("0.0.0.0", 0) as listener:
        assert url_of(listener).startswith("http://127.0.0.1:")
