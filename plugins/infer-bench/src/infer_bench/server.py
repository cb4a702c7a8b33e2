"""An `infer serve` of this benchmark's own, in a process of its own, with this command's configuration."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infer_api.errors import ConfigError, InferError

__all__ = ["OwnServer", "config_flags", "free_port", "infer_program", "own_server"]

STOP_LIMIT_S = 30.0
HOST = "127.0.0.1"
_POLL_S = 0.005
# The address is chosen here; keys are no words for a command line.
_LEFT_OUT = ("server.host", "server.port", "server.api_keys")


@dataclass(frozen=True)
class OwnServer:
    """A server that was started. `started` is its time of exec by `time.perf_counter()`; `log` holds what it says."""

    process: subprocess.Popen[bytes]
    command: tuple[str, ...]
    port: int
    started: float
    log: Path

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def wait_for_port(self, timeout_s: float) -> float:
        """Seconds from exec until the port was open. Raises InferError when the server ends, or time is up."""
        return self._wait("its port is open", timeout_s, self._is_open)

    def wait_for(self, path: str, timeout_s: float) -> float:
        """Seconds from exec until `path` answered 200. Raises InferError when the server ends, or time is up."""
        return self._wait(f"{path} answers 200", timeout_s, lambda: self._status(path) == 200)

    def _wait(self, what: str, timeout_s: float, is_so: Any) -> float:
        while not is_so():
            if self.process.poll() is not None:
                raise InferError(f"infer serve ended with status {self.process.returncode}: {self._last_words()}")
            if time.perf_counter() - self.started > timeout_s:
                raise InferError(f"infer serve: {timeout_s:g} s (--ready-timeout) passed before {what}")
            time.sleep(_POLL_S)
        return time.perf_counter() - self.started

    def _is_open(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            return probe.connect_ex((HOST, self.port)) == 0

    def _status(self, path: str) -> int:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=10.0)
        try:
            connection.request("GET", path)
            return connection.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0
        finally:
            connection.close()

    def _last_words(self) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return " / ".join(lines[-3:]) or "it said nothing"

    def stop(self) -> None:
        """End the process: asked first, then killed."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_LIMIT_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


@contextlib.contextmanager
def own_server(config: Any, program: Sequence[str], more_flags: Sequence[str] = ()) -> Iterator[OwnServer]:
    """Run `infer serve` of `config` on a free port until the block ends. `more_flags` win over the configuration.

    Enters at once: wait for what is needed. Raises ConfigError for a configuration with TLS.
    """
    if config.server.tls_certificate is not None:
        raise ConfigError("a benchmark's own server speaks plain HTTP: leave out the TLS options, or use --base-url")
    with tempfile.TemporaryDirectory(prefix="infer-bench-") as folder:
        port, log = free_port(), Path(folder) / "server.log"
        flags = [*config_flags(config), *more_flags]
        command = (*program, "serve", *flags, f"--server.host={HOST}", f"--server.port={port}")
        # A file of mode 600 for the keys: command lines can be read by everybody.
        keys = Path(folder) / "keys.yaml"
        keys.touch(mode=0o600)
        keys.write_text(json.dumps({"server": {"api_keys": list(config.server.api_keys)}}), encoding="utf-8")
        with_keys = (*command, "--config", str(keys)) if config.server.api_keys else command
        with log.open("wb") as stream:
            started = time.perf_counter()
            process = subprocess.Popen(with_keys, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        server = OwnServer(process, command, port, started, log)
        try:
            yield server
        finally:
            server.stop()


def infer_program() -> tuple[str, ...]:
    """The program `infer` that belongs to this Python. Raises ConfigError when there is none."""
    found = shutil.which("infer", path=str(Path(sys.executable).parent)) or shutil.which("infer")
    if found is None:
        raise ConfigError("the program 'infer' was not found beside Python, nor on PATH; install infer-core")
    return (found,)


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def config_flags(config: Any) -> list[str]:
    """The configuration as flags of `infer serve`; flags, because they win over variables that both processes see.

    Values that are unset, and secrets, are left out.
    """
    data = config.model_dump(mode="json")
    groups = {_kind(info): name for name, info in type(config).model_fields.items() if _kind(info)}
    flags = []
    for kind, plugins in data.pop("plugin_options").items():
        for plugin, options in plugins.items():
            flags += _flags({f"{groups[kind]}.{plugin}.{name}": value for name, value in options.items()})
    for group, fields in data.items():
        flags += _flags({f"{group}.{name}": value for name, value in fields.items()})
    return flags


def _kind(info: Any) -> str:
    extra = info.json_schema_extra
    return str(extra.get("kind", "")) if isinstance(extra, Mapping) else ""


def _flags(values: Mapping[str, Any]) -> list[str]:
    return [
        f"--{path.replace('_', '-')}={value if isinstance(value, str) else json.dumps(value)}"
        for path, value in values.items()
        if path not in _LEFT_OUT and value is not None and value not in ([], {}, "")
    ]
