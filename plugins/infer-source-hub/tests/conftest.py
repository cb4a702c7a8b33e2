"""The hub client is real; the hub is a small HTTP server of our own that speaks the parts of its API we use."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

COMMIT = "a" * 40
FOLDER = {
    "README.md": b"# a model",
    "config.json": b'{"architectures": ["X"]}',
    "tokenizer.json": b"{}",
    "model.safetensors": b"weights" * 100,
    "consolidated.safetensors": b"the same again",
    "pytorch_model.bin": b"pickled",
    "onnx/model.onnx": b"other",
}
REPOS = {
    "org/folder": FOLDER,
    "org/one-file": {"README.md": b"#", "x.tiny": b"packed"},
    "org/many": {"a.tiny": b"aa", "sub/b.tiny": b"bbb"},
    "org/none": {"README.md": b"#"},
    "org/nested": {"x.tiny/x.tiny": b"deep"},
}


@dataclass(frozen=True)
class RunningHub:
    """Where it listens, the files of "org/folder", the commit of every repository, and the paths asked for so far."""

    endpoint: str
    folder: dict[str, bytes]
    commit: str
    paths: list[str]


class Hub(BaseHTTPRequestHandler):
    """/api/models/ORG/NAME[/revision/REV][/tree/REV] and /ORG/NAME/resolve/REV/FILE."""

    paths: list[str]

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self._answer(send_body=False)

    def do_GET(self) -> None:
        self._answer(send_body=True)

    def _answer(self, *, send_body: bool) -> None:
        path = self.path.partition("?")[0]
        type(self).paths.append(path)
        parts = path.strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            self._api("/".join(parts[2:4]), parts[4:], send_body)
        else:
            self._file("/".join(parts[:2]), "/".join(parts[4:]), send_body)

    def _api(self, repo: str, rest: list[str], send_body: bool) -> None:
        files = REPOS.get(repo)
        if repo == "org/gated":
            self._reply(403, b"{}", send_body, {"X-Error-Code": "GatedRepo"})
        elif files is None:
            self._reply(401, b"{}", send_body, {"X-Error-Code": "RepoNotFound"})
        elif "no-such-branch" in rest:
            self._reply(404, b"{}", send_body, {"X-Error-Code": "RevisionNotFound"})
        elif rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": n, "size": len(d), "oid": hashlib.sha1(d).hexdigest()}
                for n, d in files.items()
            ]
            self._reply(200, json.dumps(tree).encode(), send_body)
        else:
            siblings = [{"rfilename": name, "size": len(data)} for name, data in files.items()]
            info = {"id": repo, "sha": COMMIT, "siblings": siblings, "private": False, "tags": [], "downloads": 0}
            self._reply(200, json.dumps(info).encode(), send_body)

    def _file(self, repo: str, name: str, send_body: bool) -> None:
        data = REPOS[repo][name]
        self._reply(200, data, send_body, {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": COMMIT})

    def _reply(self, status: int, body: bytes, send_body: bool, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if send_body:
            self.wfile.write(body)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningHub]:
    Hub.paths = []
    # The name of the machine is looked up when a server binds, and that may take seconds.
    monkeypatch.setattr("socket.getfqdn", lambda *_: "localhost")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield RunningHub(f"http://127.0.0.1:{server.server_port}", FOLDER, COMMIT, Hub.paths)
    server.shutdown()
    thread.join()
    server.server_close()
