from __future__ import annotations

from pathlib import Path

import pytest

from infer.config.files import read_file
from infer.config.table import OptionTable
from infer_api.errors import ConfigError

GOOD = """\
model:
  name: some/model
  served_names: [a, b]
cache:
  kv_cache_memory: 2GiB
attention:
  name: wave
  wave:
    num_splits: 8
scheduler:
"""


def test_options_are_read_with_their_lines(tmp_path: Path, table: OptionTable) -> None:
    file = tmp_path / "infer.yaml"
    file.write_text(GOOD)
    found = {one.option.path: (one.value, one.source) for one in read_file(file, table)}
    assert found == {
        "model.name": ("some/model", f"{file}:2"),
        "model.served_names": (["a", "b"], f"{file}:3"),
        "cache.kv_cache_memory": ("2GiB", f"{file}:5"),
        "attention.name": ("wave", f"{file}:7"),
        "attention.wave.num_splits": (8, f"{file}:9"),
    }


def test_an_empty_file_says_nothing(tmp_path: Path, table: OptionTable) -> None:
    (tmp_path / "empty.yaml").write_text("# nothing yet\n")
    assert read_file(tmp_path / "empty.yaml", table) == []


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("server:\n  prot: 80\n", 2, "unknown key 'server.prot'. Did you mean 'server.port'"),
        ("sever:\n  port: 80\n", 1, "unknown key 'sever'. Did you mean 'server'"),
        ("max-model-len: 5\n", 1, "unknown key 'max-model-len'. Did you mean 'model.max_model_len'"),
        (
            "attention:\n  wav:\n    num_splits: 1\n",
            2,
            "no attention plugin 'wav' is installed (installed: broken, wave)",
        ),
        ("attention:\n  wave:\n    num_split: 1\n", 3, "Did you mean 'attention.wave.num_splits'"),
        ("server:\n  port: 1\n  port: 2\n", 3, "'port' is said twice"),
        ("server: 80\n", 1, "server must hold keys with values, found 80"),
        ("- a\n- b\n", 1, "the file must hold keys with values"),
        ("server:\n  port: [1\n", 3, "no YAML"),
        ("server:\n\tport: 1\n", 2, "no YAML"),
    ],
)
def test_a_wrong_file_ends_in_one_line_with_its_number(
    text: str, line: int, words: str, tmp_path: Path, table: OptionTable
) -> None:
    file = tmp_path / "infer.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_file(file, table)
    assert f"{file}:{line}: " in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_or_binary_file_is_named(tmp_path: Path, table: OptionTable) -> None:
    with pytest.raises(ConfigError, match="cannot read the configuration file .*no.yaml: No such file"):
        read_file(tmp_path / "no.yaml", table)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="no UTF-8"):
        read_file(tmp_path / "binary", table)
    (tmp_path / "control").write_bytes(b"a: \x01\n")
    with pytest.raises(ConfigError, match="no YAML"):
        read_file(tmp_path / "control", table)


@pytest.mark.parametrize(
    "value", ['!!int "x"', '!!int ""', '!!bool "x"', '!!float "x"', "2001-99-99", '!!timestamp "x"']
)
def test_a_value_that_yaml_cannot_make_is_named_with_its_line(value: str, tmp_path: Path, table: OptionTable) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(f"server:\n  port: {value}\n")
    with pytest.raises(ConfigError, match=f"{file}:2: this is no YAML: .* as (int|bool|float|timestamp): "):
        read_file(file, table)


def test_a_file_nested_without_end_is_refused(tmp_path: Path, table: OptionTable) -> None:
    (tmp_path / "deep.yaml").write_text("[" * 5000)
    with pytest.raises(ConfigError, match="deep.yaml: this is no YAML: maximum recursion"):
        read_file(tmp_path / "deep.yaml", table)
