from __future__ import annotations

import time

import pytest

from infer.text.chat_template import ChatTemplate, find_chat_template
from infer_api.errors import ConfigError, ModelError, RequestError
from infer_api.tokenizers import TokenizerSource

USER = {"role": "user", "content": "Hi <b>&</b>"}
CHATML = """{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{% endif %}"""


def template(text: str, **special_tokens: str) -> ChatTemplate:
    return ChatTemplate({"default": text}, special_tokens, "here")


def source(templates: dict[str, str]) -> TokenizerSource:
    return TokenizerSource(
        "tokenizer.json", "{}", "model", chat_templates=templates, special_tokens={"bos_token": "<s>"}
    )


def test_a_usual_template_renders_messages_and_the_generation_prompt() -> None:
    text = template(CHATML).render([USER])
    assert text == "<|im_start|>user\nHi <b>&</b><|im_end|>\n<|im_start|>assistant\n"
    assert template(CHATML).render([USER], options={"add_generation_prompt": False}).endswith("<|im_end|>\n")


def test_blocks_take_their_line_with_them() -> None:
    assert template("{% if true %}\n  {% set x = 1 %}\nx\n{% endif %}\n").render([USER]) == "x\n"


def test_special_tokens_options_and_loop_controls_are_there() -> None:
    text = template(
        "{{ bos_token }}{{ mood }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}1{% endfor %}",
        bos_token="<s>",
    ).render([USER, USER], options={"mood": "!", "messages": [], "tools": [1]})
    assert text == "<s>!1"


def test_tojson_writes_plain_json() -> None:
    rendered = template("{{ tools | tojson }}").render([USER], [{"name": "é<&>"}])
    assert rendered == '[{"name": "é<&>"}]'
    assert template("{{ tools | tojson(indent=1) }}").render([USER], [{"a": 1}]) == '[\n {\n  "a": 1\n }\n]'


def test_strftime_now_gives_the_date() -> None:
    assert template("{{ strftime_now('%Y') }}").render([USER]) == time.strftime("%Y")


def test_the_generation_tag_is_its_body() -> None:
    assert template("a{% generation %}{{ messages[0].role }}{% endgeneration %}z").render([USER]) == "auserz"


def test_raise_exception_is_a_bad_request_with_the_templates_own_sentence() -> None:
    """B47."""
    refusing = template("{{ raise_exception('Roles must alternate!') }}")
    with pytest.raises(RequestError) as caught:
        refusing.render([USER])
    assert caught.value.message == "Roles must alternate!"
    assert (caught.value.status, caught.value.param) == (400, "messages")


@pytest.mark.parametrize(
    "text", ["{{ messages[9].content }}", "{{ 1 + 'a' }}", "{{ messages.append(1) }}", "{{ 1/0 }}"]
)
def test_any_other_failure_of_the_template_is_a_bad_request(text) -> None:
    with pytest.raises(RequestError, match="chat template cannot render"):
        template(text).render([USER])


def test_the_sandbox_keeps_python_out_of_reach() -> None:
    with pytest.raises(RequestError, match="unsafe"):
        template("{{ messages.__class__.__base__.__subclasses__() }}").render([USER])


def test_bad_jinja_fails_at_construction_with_its_line() -> None:
    """B50."""
    with pytest.raises(ModelError, match=r"here, default: line 2: .*endfor"):
        template("\n{% for m in messages %}")


def test_the_tool_variant_is_taken_when_tools_are_given() -> None:
    both = ChatTemplate({"default": "plain", "tool_use": "tools"}, {}, "here")
    assert both.render([USER]) == "plain"
    assert both.render([USER], [{"type": "function"}]) == "tools"
    assert both.names == ("default", "tool_use")


def test_variants_without_a_default_are_refused_and_a_lone_one_is_taken() -> None:
    with pytest.raises(ModelError, match="rag, tool_use"):
        ChatTemplate({"tool_use": "a", "rag": "b"}, {}, "here")
    assert ChatTemplate({"rag": "b"}, {}, "here").render([USER]) == "b"


def test_the_option_may_be_a_file_or_jinja_and_beats_the_checkpoint(tmp_path) -> None:
    """B50."""
    file = tmp_path / "chat.jinja"
    file.write_text("file {{ bos_token }}")
    found = find_chat_template(str(file), source({"default": "own"}))
    assert found is not None
    assert found.render([USER]) == "file <s>"
    inline = find_chat_template("{{ messages[0].content }}", None)
    assert inline is not None
    assert inline.render([USER]) == "Hi <b>&</b>"


def test_without_an_option_the_checkpoint_decides() -> None:
    found = find_chat_template(None, source({"default": "own"}))
    assert found is not None
    assert found.render([USER]) == "own"
    assert find_chat_template(None, source({})) is None
    assert find_chat_template(None, None) is None


def test_a_template_file_that_is_not_there_is_named(tmp_path) -> None:
    with pytest.raises(ConfigError, match="gone.jinja"):
        find_chat_template(str(tmp_path / "gone.jinja"), None)
