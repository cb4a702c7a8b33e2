from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import pytest

from infer.plugins.installed import find_package, normalized, read_installed

POINTS = "[console_scripts]\nx = y:z\n\n# note\n[infer.attention]\nfast = demo.manifest:PLUGIN [extra]\n; off = a:B\n"


def test_name_and_version_come_from_the_folder_name(site: Any) -> None:
    site.metadata("infer-demo", "1.2.3+cpu")
    assert read_installed([site.root]).versions == {"infer-demo": "1.2.3+cpu"}


def test_only_groups_of_infer_are_read_and_comments_are_left_out(site: Any) -> None:
    site.metadata("infer-demo", "1.0", POINTS)
    (entry,) = read_installed([site.root]).entries
    assert (entry.group, entry.name, entry.package, entry.attribute) == ("infer.attention", "fast", "demo", "PLUGIN")


def test_the_default_is_sys_path() -> None:
    installed = read_installed()
    assert "infer-core" in installed.versions
    assert {entry.distribution for entry in installed.group("quantization")} >= {"infer-core"}


def test_a_folder_that_is_named_twice_counts_once(site: Any) -> None:
    site.metadata("infer-demo", "1.0", POINTS)
    (entry,) = read_installed([site.root, f"{site.root}/"]).entries
    assert entry.note == ""


def test_a_missing_folder_holds_nothing(tmp_path: Path) -> None:
    assert read_installed([tmp_path / "absent"]).entries == ()


def test_the_newest_of_two_copies_in_a_folder_counts_and_the_other_is_named(site: Any) -> None:
    site.metadata("infer-demo", "2.0", POINTS, age_s=100)
    site.metadata("infer-demo", "1.9", POINTS)
    (entry,) = read_installed([site.root]).entries
    assert entry.version == "1.9"
    assert "another copy of infer-demo (2.0" in entry.note


def test_the_first_folder_of_the_path_wins(tmp_path: Path, site: Any) -> None:
    other = type(site)(tmp_path / "second")
    site.metadata("infer-demo", "1.0", POINTS, age_s=100)
    other.metadata("Infer.Demo", "3.0", POINTS)
    (entry,) = read_installed([site.root, other.root]).entries
    assert entry.version == "1.0"
    assert "3.0" in entry.note
    assert "second" in entry.note


def test_leftovers_of_an_interrupted_uninstall_are_ignored(site: Any) -> None:
    (site.root / "~nfer_demo-1.0.dist-info").mkdir()
    assert read_installed([site.root]).versions == {}


def test_a_zip_file_on_the_path_is_read(tmp_path: Path) -> None:
    path = tmp_path / "bundle.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("infer_demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: infer-demo\nVersion: 1.0\n")
        archive.writestr("infer_demo-1.0.dist-info/entry_points.txt", POINTS)
        archive.writestr("demo/__init__.py", "")
        archive.writestr("demo/infer-plugin.json", "{}")
    installed = read_installed([path])
    assert [(entry.distribution, entry.version) for entry in installed.entries] == [("infer-demo", "1.0")]
    assert installed.read_file("demo", "infer-plugin.json") == b"{}"


def test_reading_a_file_of_a_missing_package_or_a_module_fails(site: Any) -> None:
    (site.root / "single.py").write_text("", encoding="utf-8")
    installed = read_installed([site.root])
    with pytest.raises(FileNotFoundError, match="'absent' is not importable"):
        installed.read_file("absent", "x.json")
    with pytest.raises(FileNotFoundError, match="not a package"):
        installed.read_file("single", "x.json")


def test_finding_a_package_does_not_import_it(site: Any) -> None:
    site.package("explodes")
    assert find_package("explodes", [str(site.root)]) is not None
    assert find_package("no-identifier") is None


def test_names_have_one_spelling() -> None:
    assert normalized("Infer_Attn.Torch") == "infer-attn-torch"


def test_a_link_to_nowhere_does_not_hide_its_folder(site: Any) -> None:
    site.metadata("infer-demo", "1.0", POINTS)
    (site.root / "gone-1.0.dist-info").symlink_to("nowhere")
    assert read_installed([site.root]).versions == {"infer-demo": "1.0"}
