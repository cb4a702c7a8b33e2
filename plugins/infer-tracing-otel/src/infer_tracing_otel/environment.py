"""What the standard OTEL_* variables ask for. The SDK reads them itself; here only whether to start it at all."""

from __future__ import annotations

from collections.abc import Mapping

from infer_api.errors import ConfigError

__all__ = ["is_asked_for"]

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_PROTOCOL = "http/protobuf"


def is_asked_for(environment: Mapping[str, str]) -> bool:
    """Whether to send spans: an endpoint or the exporter `otlp` is named, and nothing switches the SDK off.

    Raises ConfigError for an exporter or a protocol that is not ours.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip()
    if exporter not in ("", "otlp", "none"):
        raise ConfigError(f"OTEL_TRACES_EXPORTER is {exporter!r}, but spans can only go to 'otlp' or 'none'")
    if exporter == "none" or not (exporter or _first(environment, _ENDPOINTS)):
        return False
    protocol = _first(environment, _PROTOCOLS)
    if protocol not in ("", _PROTOCOL):
        raise ConfigError(f"spans are sent by {_PROTOCOL!r} only, and {protocol!r} is asked for: set {_PROTOCOLS[1]}")
    return True


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    """The first value that is not empty, as the SDK takes them; "" for none."""
    return next((value for name in names if (value := environment.get(name, "").strip())), "")
