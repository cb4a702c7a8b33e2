from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from infer_api.errors import ConfigError, EngineDeadError, ModelError

Infer = Callable[..., object]


def test_no_words_show_the_commands(infer) -> None:
    shown = infer()
    assert shown.status == 0
    assert "usage: infer COMMAND" in shown.out
    assert "  probe    Probe a model." in shown.out
    assert infer("--help").out == shown.out
    assert infer("-h").out == shown.out


def test_the_version_is_printed(infer) -> None:
    assert infer("version").out.startswith("infer 0.")
    assert infer("--version").out == infer("version").out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["prob"], "no command is called 'prob'. Did you mean 'probe'?"),
        (["--port", "1"], "the first word must be a command, found --port"),
        (["pull", "a", "b"], "infer pull does not know what to do with 'b': infer pull [MODEL] [flags]"),
        (["plugins"], "infer plugins needs one of list, show, found none."),
        (["plugins", "lst"], "found 'lst'. Did you mean 'list'?"),
        (["plugins", "list", "--port", "1"], "unknown flag --port."),
        (["probe", "fast", "--max-num-seq", "1"], "unknown flag --max-num-seq. Did you mean '--max-num-seqs'"),
        (["probe", "fast", "--num-rounds", "x"], "--num-rounds must be int, found 'x'"),
        (["probe", "fast", "m", "--model", "n"], "two models were named: 'm', and 'n' by --model"),
        (
            ["config", "show", "--attention-backend", "wav"],
            "no attention plugin 'wav' is installed (installed: moon, wave)",
        ),
        (["config", "show", "--attention.wave.num-splits", "0"], "--attention.wave.num-splits must be at least 1"),
        (["config", "show", "--config", "no.yaml"], "cannot read the configuration file no.yaml"),
        (["explain", "--help=zebra"], "help has nothing on 'zebra'"),
    ],
)
def test_wrong_words_end_in_one_line_and_status_2(words: list[str], message: str, infer) -> None:
    result = infer(*words)
    assert result.status == 2
    assert result.err.startswith("infer: error: ")
    assert message in result.err
    assert result.err.count("\n") == 1
    assert result.out == ""


@pytest.mark.parametrize(
    ("failure", "status"),
    [(ConfigError("a\nb"), 2), (ModelError("broken"), 1), (EngineDeadError("dead"), 1), (KeyboardInterrupt(), 130)],
)
def test_what_a_command_raises_decides_the_status(failure: BaseException, status: int, infer, monkeypatch) -> None:
    monkeypatch.setattr("acme_probe_command.ProbeCommand.failure", failure, raising=False)
    result = infer("probe", "fast")
    assert result.status == status
    assert result.err.strip().count("\n") == 0


def test_a_command_of_a_distribution_gets_arguments_options_and_configuration(infer) -> None:
    from acme_probe_command import ProbeCommand

    result = infer(
        "probe", "slow", "some-model", "--num-rounds", "7", "--loud", "--port=9", "--attention.wave.num-splits", "2"
    )
    assert result.status == 5
    ((context, arguments, options),) = ProbeCommand.runs
    assert arguments == {"subcommand": "slow", "model": "some-model"}
    assert (options.num_rounds, options.loud) == (7, True)
    assert (context.config.model.name, context.config.server.port) == ("some-model", 9)
    assert context.config.options("attention", "wave") == {"num_splits": 2}


def test_a_command_of_a_distribution_has_the_defaults_of_its_options(infer) -> None:
    from acme_probe_command import ProbeCommand

    infer("probe", "fast")
    assert ProbeCommand.runs[0][2].num_rounds == 2
    assert ProbeCommand.runs[0][1] == {"subcommand": "fast", "model": None}


def run_program(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("infer")
    command = (
        [str(program)] if program.exists() else [sys.executable, "-c", "import infer.cli.main as m; exit(m.run())"]
    )
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )


def test_the_program_exits_2_on_an_unknown_variable() -> None:
    result = run_program("config", "show", INFER_SERVER__PROT="1")
    assert result.returncode == 2
    assert result.stderr.startswith("infer: error: unknown environment variable INFER_SERVER__PROT. Did you mean")
    assert "'INFER_SERVER__PORT'" in result.stderr


def test_the_program_survives_a_reader_that_goes_away() -> None:
    code = "import sys; from infer.cli.main import run; sys.exit(run(['chat', '--help=all']))"
    command = f'"{sys.executable}" -c "{code}" | head -1'
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout.startswith("Model: ")


@pytest.mark.parametrize("columns", ["0", "1", "junk", ""])
def test_odd_values_of_columns_change_nothing(columns: str) -> None:
    result = run_program("chat", "--help", COLUMNS=columns)
    assert result.returncode == 0
    assert "Talk with a model in the terminal." in result.stdout


@pytest.mark.parametrize("command", ["explain", "pull"])
def test_a_name_longer_than_a_path_may_be_ends_in_one_line(infer, command) -> None:
    result = infer(command, "a" * 5000)
    assert result.status == 1
    assert "cannot be looked at: File name too long" in result.err
    assert len(result.err) < 200
