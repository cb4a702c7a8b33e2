"""The server's certificate and key, looked at before the model is loaded."""

from __future__ import annotations

import ssl
from pathlib import Path

from infer_api.errors import ConfigError

__all__ = ["make_tls"]


def make_tls(certificate: str | None, key: str | None) -> ssl.SSLContext | None:
    """A context for the two PEM files, or None without them. Raises ConfigError naming the option at fault."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        missing, given = ("certfile", "keyfile") if certificate is None else ("keyfile", "certfile")
        raise ConfigError(f"--ssl-{given} needs --ssl-{missing} too: HTTPS takes a certificate and its key")
    chain = _readable("--ssl-certfile", certificate)
    private = _readable("--ssl-keyfile", key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(chain, private, password=_refuse_password)
    except ssl.SSLError as error:
        raise ConfigError(_explain(certificate, key, error)) from None
    return context


def _readable(option: str, name: str) -> Path:
    path = Path(name).expanduser()
    try:
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise ConfigError(f"{option} {name!r} cannot be read: {error.strerror}") from None
    return path


def _refuse_password() -> str:
    raise ConfigError("--ssl-keyfile is encrypted; store it without a password: openssl pkey -in KEY -out NEW_KEY")


def _explain(certificate: str, key: str, error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return f"--ssl-keyfile {key!r} is not the key of --ssl-certfile {certificate!r}"
    why = f" ({error.reason})" if error.reason else ""
    return f"--ssl-certfile {certificate!r} or --ssl-keyfile {key!r} is no PEM file of its kind{why}"
