"""The hub client is real; the hub is a small HTTP server of our own that speaks the parts of its API we use."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from infer.config.sections import LoadConfig
from infer.model.pull import fetch
from infer.model.pull_hub import choose_files
from infer.model.source import Formats, HubModel, ensure_model
from infer.plugins.discovery import PluginIndex, PluginRecord
from infer_api.errors import ModelError

COMMIT = "a" * 40
FORMATS = Formats((".tiny",), ("config.json",))
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
}


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
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Hub.paths = []
    # The name of the machine is looked up when a server binds, and that may take seconds.
    monkeypatch.setattr("socket.getfqdn", lambda *_: "localhost")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def load(tmp_path: Path, hub: str) -> LoadConfig:
    return LoadConfig(home=str(tmp_path / "home"), hub_endpoint=hub)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_repository_with_a_model_folder_gives_what_loading_needs(load: LoadConfig) -> None:
    folder = fetch(HubModel("org/folder"), load, FORMATS)
    names = ("config.json", "tokenizer.json", "model.safetensors")
    assert contents(folder) == {name: FOLDER[name] for name in names}
    assert f"/org/folder/resolve/{COMMIT}/model.safetensors" in Hub.paths
    assert not any("pytorch_model" in path for path in Hub.paths)


def test_the_only_model_file_is_taken(load: LoadConfig) -> None:
    assert contents(fetch(HubModel("org/one-file"), load, FORMATS)) == {"x.tiny": b"packed"}


def test_one_of_several_model_files_can_be_named(load: LoadConfig) -> None:
    found = fetch(HubModel("org/many", "sub/b.tiny"), load, FORMATS)
    assert (found / "b.tiny").read_bytes() == b"bbb"


def test_a_hub_id_becomes_a_path(load: LoadConfig) -> None:
    data = {"supports": {"suffixes": [".tiny"]}}
    index = PluginIndex([PluginRecord("loaders", "one", "acme", "1", "acme", data, "compatible")])
    found = ensure_model("org/many/sub/b.tiny", load, index)
    assert found.path.read_bytes() == b"bbb"
    count = len(Hub.paths)
    assert ensure_model("org/many/sub/b.tiny", load, index) == found
    assert len(Hub.paths) == count, "a model that is there is not asked for again"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (HubModel("org/absent"), "no such model: .* has no repository 'org/absent', or it is private"),
        (HubModel("org/gated"), "org/gated is gated: accept its terms .*HF_TOKEN"),
        (HubModel("org/many"), r"org/many holds 2 model files; choose one: org/many/FILE \(a.tiny, sub/b.tiny\)"),
        (HubModel("org/none"), "org/none holds no model that an installed loader opens"),
        (HubModel("org/many", "c.tiny"), "org/many holds no file 'c.tiny'"),
    ],
)
def test_what_the_hub_does_not_have_ends_in_one_line(source: HubModel, words: str, load: LoadConfig) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        fetch(source, load, FORMATS)
    assert "\n" not in str(caught.value)
    assert [path for path in (Path(load.home) / "models").iterdir() if path.suffix != ".lock"] == []


def test_a_revision_that_is_not_there_is_named(load: LoadConfig) -> None:
    with pytest.raises(ModelError, match="org/folder has no revision 'no-such-branch'"):
        fetch(HubModel("org/folder"), load.model_copy(update={"revision": "no-such-branch"}), FORMATS)


def test_a_hub_that_cannot_be_reached_is_no_network(tmp_path: Path) -> None:
    load = LoadConfig(home=str(tmp_path), hub_endpoint="http://127.0.0.1:9")
    with pytest.raises(ModelError, match=r"no network: http://127.0.0.1:9 could not be reached for org/folder"):
        fetch(HubModel("org/folder"), load, FORMATS)


def test_shards_and_templates_are_chosen_with_the_weights() -> None:
    sizes = dict.fromkeys(
        ["config.json", "model-1.safetensors", "model.safetensors.index.json", "chat_template.jinja", "a.py", "x.h5"], 1
    )
    chosen = choose_files(HubModel("a/b"), sizes, FORMATS)
    assert set(chosen) == {"config.json", "model-1.safetensors", "model.safetensors.index.json", "chat_template.jinja"}
