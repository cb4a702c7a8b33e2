"""The listening socket. It is opened before the model is loaded, so that a taken port is known at once."""

from __future__ import annotations

import errno
import logging
import resource
import socket

from infer_api.errors import ConfigError

__all__ = ["allow_connections", "open_socket", "url_of"]

_log = logging.getLogger(__name__)
_OTHER_FILES = 256
"""What a server has open beside its connections: model files, the engine's sockets, libraries."""


def open_socket(host: str, port: int) -> socket.socket:
    """A TCP socket that listens on `host`:`port` (0 = any free port). Raises ConfigError when it cannot."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except socket.gaierror as error:
        raise ConfigError(f"--host {host!r} is no address of this machine: {error.strerror}") from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Only a listening socket keeps others from taking the port.
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise ConfigError(_explain(host, port, error)) from error
    listener.setblocking(False)
    return listener


def _explain(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program: stop that one, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this user has: choose one from 1024 up with --port"
    return f"cannot listen on {host} port {port}: {error.strerror}; change --host or --port"


def allow_connections(count: int) -> None:
    """Let this process have `count` connections open, as far as the system permits. Warns where it does not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
        if allowed < wanted:
            advice = f"raise it (ulimit -n {wanted}), or lower --server.max-connections"
            _log.warning("only %d files may be open, too few for %d connections: %s", allowed, count, advice)


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """The address to type on this machine, such as http://127.0.0.1:8000."""
    host, port = listener.getsockname()[:2]
    here = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{here}]:{port}" if ":" in here else f"{scheme}://{here}:{port}"
