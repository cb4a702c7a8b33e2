from __future__ import annotations

import re

import pytest

from infer_api.manifest import write_manifest
from infer_source_hub.manifest import HUB
from infer_source_hub.source import HubSource

IDS = ["org/name", "org/name-1.5B_x", "org/name/sub/file.gguf", "o/n/my file.gguf"]


def test_the_manifest_file_is_fresh() -> None:
    assert write_manifest("infer_source_hub", check=True)


def test_the_implementation_is_the_source() -> None:
    assert HUB.implementation == f"{HubSource.__module__}:{HubSource.__name__}"


@pytest.mark.parametrize("name", IDS)
def test_an_id_needs_no_prefix(name: str) -> None:
    assert re.fullmatch(HUB.supports.bare, name)
    assert re.fullmatch(HUB.supports.pattern, name)


@pytest.mark.parametrize("name", ["nonsense", "", "./a/b", "~/a", "/a/b", "dir/missing.gguf", "../a/b"])
def test_names_of_files_are_left_to_the_disk(name: str) -> None:
    assert re.fullmatch(HUB.supports.bare, name) is None


def test_with_the_prefix_a_repository_may_be_called_like_a_file() -> None:
    assert re.fullmatch(HUB.supports.pattern, "org/x.gguf")


def test_the_options_keep_the_spellings_that_people_know() -> None:
    assert HUB.options is not None
    fields = HUB.options.model_json_schema()["properties"]
    assert (fields["token"]["flags"], fields["token"]["env"], fields["token"]["secret"]) == (
        ["--hf-token"],
        ["HF_TOKEN"],
        True,
    )
    assert fields["endpoint"]["env"] == ["HF_ENDPOINT"]
    assert fields["revision"]["flags"] == ["--revision"]
