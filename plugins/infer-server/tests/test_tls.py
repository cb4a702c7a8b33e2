from __future__ import annotations

import asyncio
import os
import signal
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from infer_api.errors import ConfigError
from infer_server.tls import make_tls


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A certificate for 127.0.0.1 with its key, another key, and the authority's own certificate."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    one, other = authority.issue_cert("127.0.0.1"), authority.issue_cert("127.0.0.1")
    paths = {name: folder / f"{name}.pem" for name in ("chain", "key", "other_key", "authority", "text")}
    paths["chain"].write_bytes(b"".join(blob.bytes() for blob in one.cert_chain_pems))
    one.private_key_pem.write_to_path(paths["key"])
    other.private_key_pem.write_to_path(paths["other_key"])
    authority.cert_pem.write_to_path(paths["authority"])
    paths["text"].write_text("no certificate")
    return paths


def test_without_files_there_is_no_tls() -> None:
    assert make_tls(None, None) is None


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("chain", None, "--ssl-certfile needs --ssl-keyfile too"),
        (None, "key", "--ssl-keyfile needs --ssl-certfile too"),
        ("gone", "key", "--ssl-certfile '.*gone' cannot be read: No such file"),
        ("chain", "gone", "--ssl-keyfile '.*gone' cannot be read: No such file"),
        ("chain", "other_key", "other_key.pem' is not the key of --ssl-certfile '.*chain.pem'"),
        ("text", "key", "is no PEM file of its kind"),
        ("chain", "text", "is no PEM file of its kind"),
    ],
)
def test_files_that_do_not_do_are_named(
    certificate: str | None, key: str | None, says: str, files: dict[str, Path], tmp_path: Path
) -> None:
    named = [None if name is None else str(files.get(name, tmp_path / name)) for name in (certificate, key)]
    with pytest.raises(ConfigError, match=says):
        make_tls(*named)


def test_a_key_with_a_password_is_refused_and_not_asked_for(files: dict[str, Path], tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization as form

    key = form.load_pem_private_key(files["key"].read_bytes(), None)
    locked = tmp_path / "locked.pem"
    secret = form.BestAvailableEncryption(b"word")
    locked.write_bytes(key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, secret))
    with pytest.raises(ConfigError, match="encrypted"):
        make_tls(str(files["chain"]), str(locked))


async def test_the_server_speaks_https_and_says_so(
    context: Any, running: Any, until_ready: Any, files: dict[str, Path]
) -> None:
    tls = make_tls(str(files["chain"]), str(files["key"]))
    context.loaded.set()
    async with running(context, tls, ssl.create_default_context(cafile=str(files["authority"]))) as (task, client):
        await until_ready(client)
        assert client.base_url.scheme == "https"
        assert (await client.post("/note", json={"text": "secret"})).json()["text"] == "secret"
        assert any(f"at https://127.0.0.1:{client.base_url.port}" in line for line in context.said)
        os.kill(os.getpid(), signal.SIGTERM)
        assert await asyncio.wait_for(task, 10) == 0
