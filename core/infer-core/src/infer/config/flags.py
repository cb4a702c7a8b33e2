"""Command-line words → positional arguments and given options.

Hand-written rather than argparse: flags come from data that is read at run time (schema.json and the manifests of
whatever is installed), each in several spellings, and argparse would build some two hundred actions, an import of 13 ms
and its own error texts to keep four of its features. What is here: `--flag value`, `--flag=value`, `--yes`/`--no-yes`,
repeated list flags, `--` before positionals.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from infer.config.schema import Option
from infer.config.table import Given, parse_given
from infer.config.values import nearest
from infer_api.errors import ConfigError

__all__ = ["flag_map", "parse_words"]


def flag_map(options: Iterable[Option]) -> dict[str, Option]:
    """Every spelling of the options' flags; a later option takes a spelling from an earlier one."""
    return {flag: option for option in options for flag in (*option.all_flags, *option.no_flags)}


def parse_words(words: Sequence[str], flags: Mapping[str, Option]) -> tuple[list[str], list[Given]]:
    """Split a command's words into positionals and given options; of a repeated flag the last counts, lists join.

    Raises ConfigError for an unknown flag (with near misses), a flag without its value, or a value of the wrong form.
    """
    positionals: list[str] = []
    given: dict[str, Given] = {}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return positionals + rest, list(given.values())
        if not word.startswith("-") or word == "-":
            positionals.append(word)
            continue
        one = _take(word, rest, flags)
        before = given.get(one.option.path)
        if before is not None and isinstance(one.value, list) and isinstance(before.value, list):
            one = replace(one, value=before.value + one.value)
        elif before is not None and isinstance(one.value, dict) and isinstance(before.value, dict):
            one = replace(one, value=before.value | one.value)
        given[one.option.path] = one
    return positionals, list(given.values())


def _take(word: str, rest: list[str], flags: Mapping[str, Option]) -> Given:
    flag, equals, value = word.partition("=")
    # People type a field's own spelling too: --max_model_len, --cache.block_tokens.
    spelling = flag if flag in flags else flag.replace("_", "-")
    option = flags.get(spelling)
    if option is None:
        raise ConfigError(f"unknown flag {flag}.{nearest(flag, [*flags, '--help']) or ' --help lists them.'}")
    if option.is_flag_pair and not equals:
        return Given(option, spelling not in option.no_flags, flag)
    if spelling in option.no_flags:
        raise ConfigError(f"{flag} takes no value, found {value!r}")
    if not equals:
        if not rest or rest[0].startswith("--"):
            raise ConfigError(f"{flag} needs a value: {flag} {option.name.upper()}")
        value = rest.pop(0)
    return parse_given(option, value, flag)
