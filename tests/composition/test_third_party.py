"""Two distributions as a third party would write them, from wheels, beside ours in a fresh environment.

The tests of this file run in order: the last ones uninstall what the first ones use.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from fresh_venv import FreshVenv
from members import ROOT
from served import Served, serving
from tiny_llama import write_tiny_llama

ASKED: dict[str, Any] = {"prompt": "Seven green bottles", "max_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def demo_model(venv: FreshVenv, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint that the third party's own script writes."""
    folder = tmp_path_factory.mktemp("models") / "demo-model"
    done = venv.run("python", "-m", "infer_demo_model.checkpoint", str(folder))
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_llama(tmp_path_factory.mktemp("models") / "tiny-llama")


@pytest.fixture(scope="module")
def demo_server(venv: FreshVenv, demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Their model, computed by their attention backend, with an option of theirs set."""
    arguments = [str(demo_model), "--attention-backend", "demo", "--attention.demo.query-chunk", "8"]
    with serving(venv.path / "bin" / "infer", arguments, tmp_path_factory.mktemp("server")) as served:
        yield served


def plugins_of(venv: FreshVenv) -> set[tuple[str, str, str, str]]:
    """(kind, name, distribution, state) of every installed plugin."""
    done = venv.run("infer", "plugins", "list", "--json")
    assert done.returncode == 0, done.stderr
    return {(one["kind"], one["name"], one["distribution"], one["state"]) for one in json.loads(done.stdout)}


def error_of(venv: FreshVenv, *words: str) -> str:
    """The one line in which a command that cannot work has to end."""
    done = venv.run("infer", *words)
    assert done.returncode in (1, 2), done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    return lines[0]


# -- while they are installed ---------------------------------------------------------------------------------


def test_nothing_of_ours_is_there_but_the_wheels(venv: FreshVenv) -> None:
    show = "import infer, infer_api, infer_server, infer_demo_model; print(infer.__file__, infer_api.__file__)"
    done = venv.run("python", "-c", show)
    assert done.returncode == 0, done.stderr
    assert all(Path(file).is_relative_to(venv.path) for file in done.stdout.split())
    missing = venv.run("python", "-c", "import infer_model_gemma")
    assert "No module named 'infer_model_gemma'" in missing.stderr


def test_they_are_listed_with_the_rest(venv: FreshVenv) -> None:
    found = plugins_of(venv)
    assert ("attention", "demo", "infer-demo-attention", "compatible") in found
    assert ("models", "demo", "infer-demo-model", "compatible") in found
    assert ("attention", "torch", "infer-attn-torch", "compatible") in found
    assert {state for *_, state in found} == {"compatible"}


def test_help_shows_the_backend_with_what_it_supports_and_its_options(venv: FreshVenv) -> None:
    done = venv.run("infer", "serve", "--help=Attention")
    assert done.returncode == 0, done.stderr
    shown = " ".join(done.stdout.split())
    assert "demo (infer-demo-attention 0.1.0, priority 1)" in shown
    assert "sliding_window" in shown
    for name in ("query-chunk", "accumulate"):
        assert f"--attention.demo.{name}" in shown
    assert "INFER_ATTENTION__DEMO__QUERY_CHUNK" in shown
    assert "Most new tokens of one request that are scored at once" in shown


def test_help_and_listing_run_no_plugin_code(venv: FreshVenv) -> None:
    show = "import sys; from infer.cli.main import run; run({words!r}); print('torch' in sys.modules, *sys.modules)"
    for words in (["serve", "--help=Attention"], ["plugins", "list"]):
        done = venv.run("python", "-c", show.format(words=words))
        torch_is_loaded, *modules = done.stdout.splitlines()[-1].split()
        assert torch_is_loaded == "False"
        assert [name for name in modules if name.startswith("infer_demo")] == []


def test_explain_names_the_losers_and_their_reasons(venv: FreshVenv, demo_model: Path) -> None:
    done = venv.run("infer", "explain", str(demo_model), "--json")
    assert done.returncode == 0, done.stderr
    explained = json.loads(done.stdout)["plugins"]
    attention = {row["name"]: (row["verdict"], row["reason"]) for row in explained["attention"]}
    assert attention["torch"][0] == "taken"
    assert attention["demo"][0] == "not taken"
    assert "plugins.listed" in attention["demo"][1], "auto takes third parties only when they are listed"
    models = {(row["name"], row["distribution"]): row["verdict"] for row in explained["models"]}
    assert models == {("demo", "infer-demo-model"): "taken", ("llama", "infer-model-llama"): "not taken"}


def test_their_plugins_serve_tokens(demo_server: Served) -> None:
    with httpx.Client(base_url=demo_server.url, trust_env=False) as http:
        selected = {
            (plugin["kind"], plugin["distribution"])
            for plugin in http.get("/plugins").json()["plugins"]
            if plugin["state"] == "selected"
        }
    assert {("attention", "infer-demo-attention"), ("models", "infer-demo-model")} <= selected
    with openai.OpenAI(base_url=f"{demo_server.url}/v1", api_key="none", max_retries=0) as client:
        model = client.models.list().data[0].id
        whole = client.completions.create(model=model, **ASKED)
        streamed = client.completions.create(model=model, **ASKED, stream=True)
        text = "".join(choice.text for chunk in streamed for choice in chunk.choices)
        chat = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": "Hello"}], max_tokens=4, temperature=0
        )
    assert whole.usage is not None
    assert whole.usage.completion_tokens > 0
    assert text == whole.choices[0].text != ""
    assert chat.choices[0].message.content is not None


def test_their_backend_gives_the_tokens_of_ours(venv: FreshVenv, demo_model: Path) -> None:
    """Greedy, in one process: the same model with either backend."""
    show = (
        "import json, sys; from infer import LLM, SamplingParams\n"
        "for backend in ('torch', 'demo'):\n"
        "    with LLM(sys.argv[1], attention=backend, kv_cache_memory='8MiB', max_num_batched_tokens=64) as llm:\n"
        "        replies = llm.generate(['Seven green bottles', 'a'], SamplingParams(temperature=0, max_tokens=24))\n"
        "        print(json.dumps([reply.outputs[0].token_ids for reply in replies]))\n"
    )
    done = venv.run("python", "-c", show, str(demo_model))
    assert done.returncode == 0, done.stderr
    ours, theirs = (json.loads(line) for line in done.stdout.splitlines())
    assert ours == theirs
    assert [len(ids) for ids in ours] == [24, 24]


@pytest.mark.parametrize("name", ["infer-demo-attention", "infer-demo-model"])
def test_their_own_tests_pass(venv: FreshVenv, name: str) -> None:
    folder = ROOT / "tests" / "plugins" / name
    # No settings of ours: -c. No plugins of pytest that a vendor need not have: -p.
    plain = ["-c", "/dev/null", "--rootdir", str(folder), "-p", "no:asyncio", "-p", "no:cacheprovider"]
    words = ["-m", "pytest", "-q", "-W", "error", "--import-mode=importlib", *plain, str(folder / "tests")]
    done = venv.run("python", *words, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert " passed" in done.stdout


def test_a_misspelt_backend_is_told_of_theirs(venv: FreshVenv, demo_model: Path) -> None:
    line = error_of(venv, "serve", str(demo_model), "--attention-backend", "dmeo", "--port", "0")
    assert "no attention plugin 'dmeo'" in line
    assert "Did you mean 'demo'?" in line


def test_an_option_out_of_bounds_is_refused_by_its_path(venv: FreshVenv, demo_model: Path) -> None:
    words = ["--attention-backend", "demo", "--attention.demo.query-chunk", "0", "--port", "0"]
    assert "attention.demo.query_chunk" in error_of(venv, "serve", str(demo_model), *words).replace("-", "_")
    line = error_of(venv, "serve", str(demo_model), "--attention.demo.query-chnk", "8", "--port", "0")
    assert "query-chunk" in line, "a near miss"


def test_an_architecture_of_a_family_that_is_not_installed_names_its_distribution(
    venv: FreshVenv, tmp_path: Path
) -> None:
    folder = write_tiny_llama(tmp_path / "model", config={"architectures": ["Gemma3ForCausalLM"]})
    line = error_of(venv, "explain", str(folder))
    assert "'Gemma3ForCausalLM' is offered by: pip install infer-model-gemma" in line
    for name in ("infer-model-llama/llama", "infer-demo-model/demo"):
        assert name in line, "the reasons of those that are installed"


# -- once they are gone ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def without_demos(venv: FreshVenv, demos: tuple[str, ...], demo_model: Path, llama: Path) -> FreshVenv:
    """The environment after both have been uninstalled; asks for what the tests before need, so that it comes last."""
    venv.uninstall(*demos)
    return venv


def test_uninstalled_they_are_not_listed(without_demos: FreshVenv, demos: tuple[str, ...]) -> None:
    assert {distribution for _, _, distribution, _ in plugins_of(without_demos)}.isdisjoint(demos)


def test_core_serves_as_before(without_demos: FreshVenv, llama: Path, tmp_path: Path) -> None:
    with (
        serving(without_demos.path / "bin" / "infer", [str(llama), "--engine-process", "inline"], tmp_path) as served,
        httpx.Client(base_url=served.url, trust_env=False, timeout=30) as http,
    ):
        reply = http.post("/v1/completions", json=ASKED)
        assert reply.status_code == 200, reply.text
        assert reply.json()["choices"][0]["text"]


def test_asking_for_their_backend_names_what_is_installed(without_demos: FreshVenv, llama: Path) -> None:
    line = error_of(without_demos, "serve", str(llama), "--attention-backend", "demo", "--port", "0")
    assert "no attention plugin 'demo' is installed (installed: torch)" in line


def test_their_model_is_refused_with_reasons(without_demos: FreshVenv, demo_model: Path) -> None:
    line = error_of(without_demos, "serve", str(demo_model), "--port", "0")
    assert "DemoForCausalLM" in line
    assert "infer-model-llama/llama" in line
