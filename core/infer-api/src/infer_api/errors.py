"""The one error tree of infer.

    InferError
    ├── ConfigError          an option or file of the user is wrong; the CLI prints one line and exits 2
    ├── PluginError          a plugin is missing, broken, incompatible or ambiguous
    ├── ModelError           a checkpoint, tokenizer or template cannot be used
    │   └── NotSliceable     a stored tensor cannot be cut where it was asked to
    ├── RequestError         one request is wrong; carries what an HTTP reply needs, and nothing of HTTP
    └── EngineDeadError      the engine has stopped; every pending request ends with this

A message says what was wrong, what was found, and what to type instead.
"""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "EngineDeadError",
    "InferError",
    "ModelError",
    "NotSliceable",
    "PluginError",
    "RequestError",
]


class InferError(Exception):
    """Base of every error that a caller may want to catch."""


class ConfigError(InferError):
    """An option, environment variable or configuration file is wrong."""


class PluginError(InferError):
    """A plugin is missing, broken, incompatible, or cannot be chosen without help."""


class ModelError(InferError):
    """A checkpoint, tokenizer or chat template cannot be used as it is."""


class NotSliceable(ModelError):
    """A stored tensor cannot be narrowed at the asked position; `multiple` says where it can."""

    def __init__(self, what: str, *, multiple: int) -> None:
        super().__init__(f"{what}: it can only be cut at multiples of {multiple}")
        self.multiple = multiple


class RequestError(InferError):
    """One request is refused or failed; its neighbours are untouched.

    `status` is the HTTP status a server should answer, `code` a short machine-readable word,
    `param` the request field at fault (or None), `retry_after_s` when to come back where that helps (503).
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str = "invalid_value",
        status: int = 400,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s


class EngineDeadError(InferError):
    """The engine has stopped and will answer nothing more. Servers map it to 503."""
