from __future__ import annotations

import pytest

from infer.service.renderer import TextRenderer
from infer.text.chat_template import ChatTemplate
from infer_api.errors import RequestError
from infer_tokenizer_json.tokenizer import JsonTokenizer

TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{{ mood }}"


@pytest.fixture
def renderer(byte_tokenizer) -> TextRenderer:
    template = ChatTemplate({"default": TEMPLATE}, {}, "here")
    return TextRenderer(byte_tokenizer, template, byte_tokenizer.vocab_size, 64)


def test_chat_becomes_the_templates_text_and_its_ids(renderer, byte_tokenizer) -> None:
    rendered = renderer.chat([{"role": "user", "content": "hi"}], options={"mood": "!"})
    assert rendered.text == "<|im_start|>user: hi<|im_end|>!"
    assert list(rendered.prompt_ids) == byte_tokenizer.encode(rendered.text)
    assert rendered.prompt_ids[0] == 0, "special tokens written by the template become their ids"
    assert rendered.param == "messages"


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_parts_render_like_the_joined_string(renderer, role) -> None:
    """B49."""
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert renderer.chat([{"role": role, "content": parts}]) == renderer.chat([{"role": role, "content": "ab"}])


def test_chat_adds_no_bos_beside_the_templates_own(sentencepiece, source_of) -> None:
    tokenizer = JsonTokenizer(source_of(sentencepiece, bos_id=1))
    template = ChatTemplate({"default": "{{ bos_token }}{{ messages[0].content }}"}, {"bos_token": "<s>"}, "here")
    rendered = TextRenderer(tokenizer, template, tokenizer.vocab_size, 64).chat([{"role": "user", "content": "cat"}])
    assert rendered.prompt_ids.count(1) == 1
    assert TextRenderer(tokenizer, template, tokenizer.vocab_size, 64).text("cat").prompt_ids.count(1) == 1


def test_without_a_template_chat_names_the_option_and_completions_work(byte_tokenizer) -> None:
    """B50."""
    renderer = TextRenderer(byte_tokenizer, None, byte_tokenizer.vocab_size, 64)
    with pytest.raises(RequestError, match="--chat-template") as caught:
        renderer.chat([{"role": "user", "content": "hi"}])
    assert caught.value.status == 400
    assert renderer.text("hi").text == "hi"


@pytest.mark.parametrize("call", ["text", "chat"])
def test_half_a_surrogate_pair_is_a_bad_request(renderer, call) -> None:
    """B62."""
    with pytest.raises(RequestError, match="ud800") as caught:
        renderer.text("a\ud800") if call == "text" else renderer.chat([{"role": "user", "content": "a\ud800"}])
    assert caught.value.status == 400
    caught.value.message.encode()


def test_ids_are_taken_as_they_are_when_in_the_vocabulary(renderer) -> None:
    assert renderer.text([5, 0], param="prompt[2]").prompt_ids == (5, 0)
    assert renderer.text([5, 0]).text is None


@pytest.mark.parametrize("bad", [-1, 10**9, True, 1.0, "5", None])
def test_ids_outside_the_vocabulary_are_refused_with_their_place(renderer, bad) -> None:
    with pytest.raises(RequestError) as caught:
        renderer.text([5, bad], param="prompt[2]")
    assert caught.value.message.startswith("prompt[2][1] must be a token id")


def test_detokenize_shows_special_tokens_and_skips_unknown_ids(renderer, byte_tokenizer) -> None:
    ids = [*byte_tokenizer.encode("<|im_start|>hi"), byte_tokenizer.vocab_size]
    assert renderer.detokenize(ids) == "<|im_start|>hi"


def test_token_text_marks_broken_characters(renderer, byte_tokenizer) -> None:
    first = byte_tokenizer.encode("\U0001f600")[0]
    assert renderer.token_text(first) == "\ufffd"
    with pytest.raises(RequestError):
        renderer.token_text(byte_tokenizer.vocab_size)


def test_without_a_tokenizer_only_ids_work() -> None:
    renderer = TextRenderer(None, None, 10, 64)
    assert renderer.text([1, 2]).prompt_ids == (1, 2)
    with pytest.raises(RequestError, match="no tokenizer"):
        renderer.text("hi")


def test_text_that_cannot_fit_is_refused_before_it_is_tokenized(byte_tokenizer, monkeypatch) -> None:
    renderer = TextRenderer(byte_tokenizer, ChatTemplate({"default": TEMPLATE}, {}, "here"), 300, 64)
    most = 64 * byte_tokenizer.max_token_chars
    assert renderer.text("a" * most).text
    monkeypatch.setattr(byte_tokenizer, "encode", None)
    for render in (
        lambda: renderer.text("a" * (most + 1)),
        lambda: renderer.chat([{"role": "user", "content": "a" * most}]),
    ):
        with pytest.raises(RequestError, match="cannot fit") as caught:
            render()
        assert (caught.value.status, caught.value.code) == (400, "context_length_exceeded")


@pytest.mark.parametrize("prompt", [5, None, 1.5, b"a"])
def test_a_prompt_that_is_neither_text_nor_ids_is_refused(renderer, prompt) -> None:
    with pytest.raises(RequestError, match="must be text or a list of token ids"):
        renderer.text(prompt)
