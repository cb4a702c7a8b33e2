from __future__ import annotations

from infer_api.manifest import write_manifest
from infer_server.command import ServeCommand
from infer_server.manifest import SERVE


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_server", check=True)


def test_the_implementation_is_the_command() -> None:
    module, _, name = SERVE.implementation.partition(":")
    assert (module, name) == (ServeCommand.__module__, ServeCommand.__name__)
