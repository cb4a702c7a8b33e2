from __future__ import annotations

import resource
import socket
from collections.abc import Iterator

import pytest

from infer_api.errors import ConfigError
from infer_server.listen import allow_connections, open_socket, url_of


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


@pytest.fixture
def open_files() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_as_many_files_may_be_open_as_connections_need(
    open_files: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, open_files[1]))
    allow_connections(300)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 556
    allow_connections(10)
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == 556
    assert caplog.text == ""


def test_a_system_that_allows_fewer_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda which: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: asked.append(limits))
    allow_connections(4096)
    assert asked == [(1024, 1024)]
    assert "only 1024 files" in caplog.text
    assert "--server.max-connections" in caplog.text
