from __future__ import annotations

from infer_api.sources import ModelFormats
from infer_source_hub.files import choose_files

FORMATS = ModelFormats((".tiny",), ("config.json",))


def test_shards_and_templates_are_chosen_with_the_weights() -> None:
    wanted = ["config.json", "model-1.safetensors", "model.safetensors.index.json", "chat_template.jinja"]
    assert choose_files("a/b", "", [*wanted, "a.py", "x.h5"], FORMATS) == wanted


def test_the_same_weights_in_their_maker_s_layout_are_left_out() -> None:
    names = ["config.json", "model.safetensors", "consolidated.safetensors"]
    assert choose_files("a/b", "", names, FORMATS) == names[:2]
    assert choose_files("a/b", "", ["config.json", "consolidated.safetensors"], FORMATS)[1:] == names[2:]


def test_a_model_file_counts_where_the_folder_has_no_weights_of_ours() -> None:
    assert choose_files("a/b", "", ["config.json", "sub/x.tiny"], FORMATS) == ["sub/x.tiny"]
