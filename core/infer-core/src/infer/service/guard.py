"""`KeyGuard`: API keys, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from pathlib import Path

from infer_api.errors import ConfigError

__all__ = ["KeyGuard", "read_keys"]


class KeyGuard:
    """The `Guard` of a server: passes `Bearer KEY` with one of `keys`, and everything when there are none."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._digests = tuple(_digest(key) for key in keys)

    def allows(self, authorization: str | None) -> bool:
        if not self._digests:
            return True
        scheme, _, key = (authorization or "").strip(" \t").partition(" ")
        key = key.strip(" \t")  # no other blanks: U+00A0 may be a byte of the key
        # Servers decode headers as Latin-1, and most clients send UTF-8.
        digests = {_digest(key), _digest(key.encode("latin-1") if max(key, default="") <= "\xff" else key)}
        # Digests have one length, and all keys are compared: the time tells neither length nor position.
        hits = [hmac.compare_digest(digest, known) for known in self._digests for digest in digests]
        return scheme.lower() == "bearer" and any(hits)


def read_keys(keys: Sequence[str], key_file: str | None) -> tuple[str, ...]:
    """`keys` and those of `key_file`, one a line; blank lines and lines with # are left out. Raises ConfigError."""
    if any(not key.strip() for key in keys):
        raise ConfigError("server.api_keys: a key is empty; leave the option out to ask for no key")
    if key_file is None:
        return tuple(key.strip() for key in keys)
    try:
        lines = Path(key_file).expanduser().read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--api-key-file {key_file!r} cannot be read: {error}") from None
    more = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not more:
        raise ConfigError(f"--api-key-file {key_file!r} holds no key; write one a line")
    return (*(key.strip() for key in keys), *more)


def _digest(key: str | bytes) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key).digest()
