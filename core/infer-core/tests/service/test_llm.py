from __future__ import annotations

import dataclasses
import gc
import threading
from contextlib import asynccontextmanager

import pytest

from infer.service.llm import LLM
from infer.service.renderer import TextRenderer
from infer.text.chat_template import ChatTemplate
from infer_api.errors import ConfigError, EngineDeadError, ModelError, RequestError
from infer_api.requests import RowError, SamplingParams
from infer_api.services import Services

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}|"


@pytest.fixture
def opener(pipeline, byte_tokenizer, card, limits):
    """Makes what opens the services of a scripted engine."""

    def make(engine, defaults=None):
        @asynccontextmanager
        async def opened():
            yield Services(
                engine=engine,
                renderer=TextRenderer(
                    byte_tokenizer, ChatTemplate({"default": TEMPLATE}, {}, "x"), card.vocab_size, 64
                ),
                outputs=pipeline(engine),
                models=(dataclasses.replace(card, defaults=defaults or {}),),
                guard=None,
                limits=limits,
                version="0",
                fingerprint="fp",
            )
            await engine.close()

        return opened

    return make


@pytest.fixture
def llm_of(opener):
    """Makes an LLM over a scripted engine; all are closed at the end."""
    made: list[LLM] = []

    def make(engine, defaults=None) -> LLM:
        made.append(LLM.from_services(opener(engine, defaults)))
        return made[-1]

    yield make
    for llm in made:
        llm.close()


@pytest.fixture
def answers(scripted_engine, script, byte_tokenizer):
    """An engine that answers each prompt text with a text."""

    def make(**texts: str):
        return scripted_engine(
            by_prompt={
                tuple(byte_tokenizer.encode(prompt)): script([[one] for one in byte_tokenizer.encode(text)])
                for prompt, text in texts.items()
            }
        )

    return make


def test_one_prompt_gives_one_completion_with_exact_ids(llm_of, answers, byte_tokenizer) -> None:
    llm = llm_of(answers(a=" cat"))
    (completion,) = llm.generate("a", SamplingParams(temperature=0, logprobs=0))
    assert completion.text == " cat"
    assert completion.prompt == "a"
    assert completion.prompt_token_ids == tuple(byte_tokenizer.encode("a"))
    (output,) = completion.outputs
    assert output.token_ids == tuple(byte_tokenizer.encode(" cat"))
    assert (output.finish_reason, output.stop_reason) == ("length", None)
    assert "".join(token.text for token in output.logprobs) == " cat"


def test_a_prompt_may_be_scored_without_an_answer(llm_of, scripted_engine, script) -> None:
    scoring = SamplingParams(prompt_logprobs=0, max_tokens=0)
    scored, plain = llm_of(scripted_engine(script([]), script([[5]]))).generate(
        [[40, 41], [42]], [scoring, SamplingParams()]
    )
    assert [(token.token_id, token.logprob) for token in scored.prompt_logprobs] == [(40, None), (41, -0.5)]
    assert (scored.text, scored.outputs[0].token_ids) == ("", ())
    assert plain.prompt_logprobs is None


def test_many_prompts_keep_their_order(llm_of, answers) -> None:
    llm = llm_of(answers(a="first is long", b="2", c="third"))
    assert [one.text for one in llm.generate(["a", "b", "c"])] == ["first is long", "2", "third"]


def test_more_prompts_than_a_server_takes_are_fine(llm_of, answers) -> None:
    assert len(llm_of(answers(a="x")).generate(["a"] * 20)) == 20


@pytest.mark.parametrize("prompts", [[[5, 6], [7]], [[5, 6]]])
def test_lists_of_ids_are_prompts(llm_of, scripted_engine, script, prompts) -> None:
    engine = scripted_engine(*(script([[9]]) for _ in prompts))
    completions = llm_of(engine).generate(prompts)
    assert [list(one.prompt_token_ids) for one in completions] == prompts
    assert [one.prompt for one in completions] == [None] * len(prompts)


def test_a_single_list_of_ids_is_one_prompt(llm_of, scripted_engine, script) -> None:
    (completion,) = llm_of(scripted_engine(script([[9]]))).generate([5, 6])
    assert completion.prompt_token_ids == (5, 6)


def test_each_prompt_may_have_its_own_sampling(llm_of, answers) -> None:
    engine = answers(a="long text", b="long text")
    each = [SamplingParams(max_tokens=2), SamplingParams(max_tokens=5, n=2)]
    first, second = llm_of(engine).generate(["a", "b"], each)
    assert [len(output.token_ids) for output in first.outputs + second.outputs] == [2, 5, 5]
    with pytest.raises(ConfigError, match="2 prompts came with 1"):
        llm_of(engine).generate(["a", "b"], each[:1])


def test_without_sampling_the_checkpoints_defaults_count(llm_of, answers) -> None:
    engine = answers(a="x")
    llm = llm_of(engine, defaults={"temperature": 0.6, "top_k": 20})
    llm.generate("a")
    llm.generate("a", SamplingParams(temperature=0.1))
    assert [(r.sampling.temperature, r.sampling.top_k) for r in engine.requests] == [(0.6, 20), (0.1, 0)]


def test_chat_takes_one_conversation_or_several(llm_of, answers) -> None:
    llm = llm_of(answers(**{"hi|": "hello", "yo|": "what"}))
    assert [one.text for one in llm.chat([{"role": "user", "content": "hi"}])] == ["hello"]
    both = llm.chat([[{"role": "user", "content": "hi"}], [{"role": "user", "content": "yo"}]])
    assert [one.text for one in both] == ["hello", "what"]


def test_stream_yields_text_as_it_comes(llm_of, answers) -> None:
    llm = llm_of(answers(a="green bottles", **{"hi|": "hello"}))
    pieces = list(llm.stream("a"))
    assert "".join(pieces) == "green bottles"
    assert len(pieces) > 1
    assert "".join(llm.stream([{"role": "user", "content": "hi"}])) == "hello"


def test_leaving_a_stream_early_aborts_the_request(llm_of, scripted_engine, script) -> None:
    engine = scripted_engine(script([[40], [41], [42]], end=None))
    stream = llm_of(engine).stream([5])
    next(stream)
    stream.close()
    assert engine.aborted == [engine.requests[0].request_id]


def test_wrong_parameters_are_refused_before_anything_runs(llm_of, answers) -> None:
    engine = answers(a="x", b="y")
    with pytest.raises(RequestError, match="temperature"):
        llm_of(engine).generate(["a", "b"], [SamplingParams(), SamplingParams(temperature=-1)])
    with pytest.raises(RequestError, match="no tokens"):
        llm_of(engine).stream("")
    assert engine.requests == []


def test_a_failing_prompt_raises_and_ends_the_others(llm_of, scripted_engine, script) -> None:
    engine = scripted_engine(script([[5]], end=None), script([[5], []], end="error", error=RowError("NaN")))
    with pytest.raises(RequestError, match="NaN"):
        llm_of(engine).generate([[5], [6]])
    assert engine.running == set()


async def test_it_works_inside_a_running_loop_and_from_several_threads(llm_of, answers) -> None:
    llm = llm_of(answers(a="x", b="y"))
    assert llm.generate("a")[0].text == "x"
    texts: list[str] = []
    threads = [threading.Thread(target=lambda p=p: texts.append(llm.generate(p)[0].text)) for p in "abab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(texts) == ["x", "x", "y", "y"]


def test_stats_and_tokenizer_are_at_hand(llm_of, answers, byte_tokenizer) -> None:
    llm = llm_of(answers(a="x"))
    assert llm.stats().capacity_tokens == 128
    assert llm.tokenizer is byte_tokenizer


def test_closing_ends_engine_and_thread_and_later_calls_say_so(llm_of, answers) -> None:
    engine = answers(a="x")
    with llm_of(engine) as llm:
        thread = llm._loop._thread
    llm.close()
    assert engine.is_closed
    assert not thread.is_alive()
    with pytest.raises(EngineDeadError, match="closed"):
        llm.generate("a")


def test_a_start_that_fails_raises_and_leaves_no_thread() -> None:
    before = threading.active_count()

    @asynccontextmanager
    async def failing():
        raise ModelError("no such model")
        yield

    with pytest.raises(ModelError, match="no such model"):
        LLM.from_services(failing)
    assert threading.active_count() == before


def test_an_llm_that_is_dropped_without_close_stops_its_engine(opener, scripted_engine) -> None:
    engine, before = scripted_engine(), threading.active_count()
    llm = LLM.from_services(opener(engine))
    assert not engine.is_closed
    del llm
    gc.collect()
    assert engine.is_closed
    assert threading.active_count() == before


def test_a_path_names_a_model_like_a_string(tmp_path) -> None:
    with pytest.raises(ModelError, match="no such model .*missing"):
        LLM(tmp_path / "missing")


@pytest.mark.parametrize("prompts", [5, None, [None], [1.5], ["a", 5]])
def test_prompts_of_a_wrong_type_are_refused(llm_of, scripted_engine, prompts) -> None:
    with pytest.raises(RequestError):
        llm_of(scripted_engine()).generate(prompts)


@pytest.mark.parametrize("messages", [{"role": "user", "content": "x"}, 5, None])
def test_messages_that_are_no_list_are_refused(llm_of, scripted_engine, messages) -> None:
    for ask in (llm_of(scripted_engine()).chat, llm_of(scripted_engine()).stream):
        with pytest.raises(RequestError):
            ask(messages)


@pytest.mark.parametrize("sampling", [{}, {"temperature": 0}, [{}], 5])
def test_sampling_of_a_wrong_type_says_what_it_should_be(llm_of, scripted_engine, sampling) -> None:
    with pytest.raises(ConfigError, match=r"must be SamplingParams\(\.\.\.\)"):
        llm_of(scripted_engine()).generate("a", sampling)


@pytest.mark.filterwarnings("error")
def test_a_stream_that_outlives_its_llm_says_so(llm_of, scripted_engine, script) -> None:
    llm = llm_of(scripted_engine(script([[70], [71]], end=None)))
    stream = llm.stream("a")
    next(stream)
    llm.close()
    with pytest.raises(EngineDeadError):
        list(stream)
