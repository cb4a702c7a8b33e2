"""`infer`: words → command → exit status. Every error of the user ends here, in one line.

Exit status: 0 done, 1 failed (model, plugin, engine), 2 wrong options or configuration, 130 interrupted.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from infer.cli.commands import CONFIG_FILE, Command, Invocation, get_command
from infer.config.flags import flag_map, parse_words
from infer.config.schema import Option, read_schema
from infer.config.table import Given, OptionTable
from infer.config.values import nearest
from infer.observe.logs import log_line
from infer.plugins.discovery import PluginIndex, discover
from infer_api.errors import ConfigError, InferError

__all__ = ["invoke", "main", "run"]


def run(argv: Sequence[str] | None = None) -> int:
    """Entry of the program `infer`: returns the exit status. `argv` None means the process's own arguments."""
    try:
        status = main(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return status
    except InferError as error:
        text = " ".join(str(error).split())
        if not log_line(logging.ERROR, text):
            sys.stderr.write(f"infer: error: {text}\n")
        return 2 if isinstance(error, ConfigError) else 1
    except KeyboardInterrupt:
        if not log_line(logging.WARNING, "interrupted"):
            sys.stderr.write("\ninfer: interrupted\n")
        return 130
    except BrokenPipeError:
        # The reader (head, less) has gone. Python flushes again at exit and must find something that takes it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def main(words: Sequence[str]) -> int:
    """Run the command that `words` name. Raises InferError."""
    before = words[: words.index("--")] if "--" in words else words
    topic = next(
        (word.partition("=")[2] for word in before if word in ("-h", "--help") or word.startswith("--help=")), None
    )
    name = words[0] if words else ""
    if name == "--version":
        return main(["version"])
    index = discover()
    if not words or name.startswith("-"):
        if words and topic is None:
            raise ConfigError(f"the first word must be a command, found {name}. infer --help lists them.")
        return _help(None, topic or "", index)
    command = get_command(name, index)
    if topic is not None:
        return _help(command, topic, index)
    return invoke(command, words[1:], index)


def _help(command: Command | None, topic: str, index: PluginIndex) -> int:
    from infer.cli.help import help_text

    sys.stdout.write(help_text(command, topic, index))
    return 0


def invoke(command: Command, words: Sequence[str], index: PluginIndex) -> int:
    """Parse a command's own words and run it. Raises InferError."""
    invocation = _parse(command, words, index)
    if command.record is not None:
        from infer.cli.context import run_plugin_command

        return run_plugin_command(invocation)
    module, _, attribute = command.run.partition(":")
    status = getattr(import_module(module), attribute)(invocation)
    assert isinstance(status, int), f"{command.run} must return an exit status"
    return status


def _parse(command: Command, words: Sequence[str], index: PluginIndex) -> Invocation:
    table = OptionTable(read_schema(), index)
    config = [*table.by_path.values(), CONFIG_FILE] if command.takes_config else []
    # A command's own flag wins over a short one of the configuration, whose path form stays.
    positionals, given = parse_words(words, flag_map([*config, *command.options]))
    own: tuple[Option, ...] = command.options
    settings = [one for one in given if one.option not in own and one.option is not CONFIG_FILE]
    file = next((one.value for one in given if one.option is CONFIG_FILE), None)
    arguments = _arguments(command, positionals)
    model = arguments.get("model")
    if model and command.takes_config:
        settings = _with_model(model, settings, table)
    return Invocation(
        command=command,
        arguments=arguments,
        options={one.option.name: one.value for one in given if one.option in own},
        settings=tuple(settings),
        config_file=Path(file) if file else None,
        table=table,
        index=index,
    )


def _arguments(command: Command, positionals: list[str]) -> dict[str, str | None]:
    """Positionals by name; None for optional ones that were left out. Raises ConfigError for too few or too many."""
    rest = list(positionals)
    arguments: dict[str, str | None] = {}
    if command.subcommands:
        known = [name for name, _ in command.subcommands]
        found = rest.pop(0) if rest else ""
        if found not in known:
            said = f"found {found!r}" if found else "found none"
            raise ConfigError(f"infer {command.name} needs one of {', '.join(known)}, {said}.{nearest(found, known)}")
        arguments["subcommand"] = found
    for name, text in command.arguments:
        if not rest and not name.endswith("?"):
            raise ConfigError(f"infer {command.name} needs {name.upper()} ({text}): {command.usage}")
        arguments[name.rstrip("?")] = rest.pop(0) if rest else None
    if rest:
        raise ConfigError(f"infer {command.name} does not know what to do with {rest[0]!r}: {command.usage}")
    return arguments


def _with_model(model: str, settings: list[Given], table: OptionTable) -> list[Given]:
    option = table.by_path["model.name"]
    other = next((one for one in settings if one.option is option), None)
    if other is not None and other.value != model:
        raise ConfigError(f"two models were named: {model!r}, and {other.value!r} by {other.source}")
    return [*(one for one in settings if one.option is not option), Given(option, model, "argument MODEL")]
