"""Chat templates: Jinja, in a sandbox, with the names that templates of Hugging Face checkpoints expect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

from infer_api.errors import ConfigError, ModelError, RequestError
from infer_api.tokenizers import TokenizerSource

__all__ = ["ChatTemplate", "find_chat_template"]

TOOL_VARIANT = "tool_use"
"""Name of the variant that is taken when a request brings tools."""


class ChatTemplate:
    """One or more named templates of a model, compiled.

    `templates` maps names to Jinja text ("default", "tool_use", …), `special_tokens` holds texts such as
    {"bos_token": "<s>"}, `where` is for messages. Raises ModelError for text that is no Jinja.
    """

    def __init__(self, templates: Mapping[str, str], special_tokens: Mapping[str, str], where: str) -> None:
        if not templates:
            raise ModelError(f"{where}: no chat template in it")
        environment = _environment()
        self._variants = {name: _compile(environment, text, f"{where}, {name}") for name, text in templates.items()}
        self._special_tokens = dict(special_tokens)
        if len(templates) > 1 and "default" not in templates:
            names = ", ".join(sorted(templates))
            raise ModelError(f"{where}: none of the chat templates ({names}) is called default; use --chat-template")
        self._default = self._variants["default"] if "default" in templates else next(iter(self._variants.values()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._variants)

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> str:
        """The prompt of normalised `messages`. `options` are more variables; they cannot replace messages and tools.

        Raises RequestError (400): with the template's own sentence when it refuses.
        """
        template = self._variants.get(TOOL_VARIANT, self._default) if tools else self._default
        variables = {
            "add_generation_prompt": True,
            **self._special_tokens,
            **(options or {}),
            "messages": list(messages),
            "tools": list(tools) or None,
            "documents": None,
        }
        try:
            return template.render(variables)
        except _Refusal as refusal:
            raise RequestError(str(refusal), param="messages", code="invalid_messages") from None
        except (jinja2.TemplateError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            message = f"the chat template cannot render these messages: {error}"
            raise RequestError(message, param="messages", code="invalid_messages") from error
        except RecursionError:
            raise RequestError("the messages are nested too deeply", param="messages") from None


def find_chat_template(option: str | None, source: TokenizerSource | None) -> ChatTemplate | None:
    """The template of `--chat-template` (a file, or Jinja itself), else the checkpoint's; None when there is none.

    Raises ConfigError for a file that cannot be read, ModelError for bad Jinja.
    """
    special_tokens = source.special_tokens if source else {}
    if option is not None:
        return ChatTemplate({"default": _read_option(option)}, special_tokens, "--chat-template")
    if source is None or not source.chat_templates:
        return None
    return ChatTemplate(source.chat_templates, special_tokens, f"chat template of {source.where}")


def _read_option(option: str) -> str:
    if "{%" in option or "{{" in option:
        return option
    path = Path(option).expanduser()
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"--chat-template {option!r} is neither Jinja (it has no '{{{{' or '{{%') nor a readable file: {error}"
        ) from None


class _Refusal(jinja2.TemplateError):
    """The template called raise_exception."""


class _GenerationTag(Extension):
    """`{% generation %}…{% endgeneration %}` marks what an assistant said, for training; here it is its body."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        lineno = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=lineno)


def _environment() -> ImmutableSandboxedEnvironment:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    return environment


def _compile(environment: ImmutableSandboxedEnvironment, text: str, where: str) -> jinja2.Template:
    try:
        return environment.from_string(text)
    except jinja2.TemplateSyntaxError as error:
        raise ModelError(f"{where}: line {error.lineno}: {error.message}") from None


def _raise_exception(message: str) -> NoReturn:
    raise _Refusal(str(message))


def _strftime_now(pattern: str) -> str:
    return datetime.now().strftime(pattern)


def _to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    # Jinja's own filter escapes <, > and & for HTML, which no model was trained on.
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=default
    )
