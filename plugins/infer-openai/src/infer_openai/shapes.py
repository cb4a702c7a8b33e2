"""How events look as chat completions and as completions. One request, one shape object."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Protocol

from infer_api.services import Choice, Event, Finished, PromptScored, Reply, TextDelta, Usage
from infer_openai.envelope import Envelope, Head, encode
from infer_openai.logprobs import LegacyLogprobs, chat_logprobs, prompt_logprobs

__all__ = ["ChatShape", "CompletionShape", "Shape"]


class Shape(Protocol):
    """Both forms of an answer; `answer` picks one."""

    def whole(self, reply: Reply) -> bytes:
        """The JSON body of a reply."""
        ...

    def chunk(self, event: Event) -> bytes:
        """The server-sent events for one event of the pipeline; empty when there is nothing to say."""
        ...


class ChatShape:
    """`chat.completion` and its chunks. `num_prompt_top` alternatives are reported for tokens of the prompt, if any."""

    def __init__(self, head: Head, *, with_usage: bool, with_logprobs: bool, num_prompt_top: int | None = None) -> None:
        self._envelope = Envelope(head, "chat.completion", "chat.completion.chunk", with_usage=with_usage)
        self._with_logprobs = with_logprobs
        self._num_prompt_top = num_prompt_top
        self._begun: set[int] = set()

    def whole(self, reply: Reply) -> bytes:
        return self._envelope.whole([self._choice(choice) for choice in reply.choices], reply.usage)

    def chunk(self, event: Event) -> bytes:
        if isinstance(event, Usage):
            return self._envelope.usage_chunk(event)
        start = self._start(event.index)
        if isinstance(event, PromptScored):
            return start + _scored_chunk(self._envelope, event, b'"delta":{}', self._num_prompt_top)
        if isinstance(event, Finished):
            return start + self._envelope.last_chunk(event.index, b'"delta":{}', event.reason, event.stop_reason)
        if not event.text and not event.tokens:
            return start
        logprobs = chat_logprobs(event.tokens) if self._with_logprobs else None
        return start + self._envelope.chunk(event.index, b'"delta":{"content":%b}' % encode(event.text), logprobs)

    def _start(self, index: int) -> bytes:
        if index in self._begun:
            return b""
        self._begun.add(index)
        return self._envelope.chunk(index, b'"delta":{"role":"assistant","content":""}')

    def _choice(self, choice: Choice) -> dict[str, Any]:
        return {
            "index": choice.index,
            "message": {"role": "assistant", "content": choice.text, "refusal": None},
            "logprobs": chat_logprobs(choice.tokens) if self._with_logprobs else None,
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            **_scores(choice, self._num_prompt_top),
        }


class CompletionShape:
    """`text_completion`, whole and in chunks of the same name; arguments as for `ChatShape`."""

    def __init__(self, head: Head, *, with_usage: bool, with_logprobs: bool, num_prompt_top: int | None = None) -> None:
        self._envelope = Envelope(head, "text_completion", "text_completion", with_usage=with_usage)
        self._with_logprobs = with_logprobs
        self._num_prompt_top = num_prompt_top
        self._reports: defaultdict[int, LegacyLogprobs] = defaultdict(LegacyLogprobs)

    def whole(self, reply: Reply) -> bytes:
        return self._envelope.whole([self._choice(choice) for choice in reply.choices], reply.usage)

    def chunk(self, event: Event) -> bytes:
        if isinstance(event, Usage):
            return self._envelope.usage_chunk(event)
        if isinstance(event, PromptScored):
            return _scored_chunk(self._envelope, event, b'"text":""', self._num_prompt_top)
        if isinstance(event, Finished):
            return self._envelope.last_chunk(event.index, b'"text":""', event.reason, event.stop_reason)
        if not event.text and not event.tokens:
            return b""
        return self._envelope.chunk(event.index, b'"text":%b' % encode(event.text), self._report(event))

    def _choice(self, choice: Choice) -> dict[str, Any]:
        return {
            "index": choice.index,
            "text": choice.text,
            "logprobs": self._report(choice),
            "finish_reason": choice.finish_reason,
            "stop_reason": choice.stop_reason,
            **_scores(choice, self._num_prompt_top),
        }

    def _report(self, of: TextDelta | Choice) -> dict[str, Any] | None:
        return self._reports[of.index].part(of.tokens, of.text) if self._with_logprobs else None


def _scores(choice: Choice, num_top: int | None) -> dict[str, Any]:
    if num_top is None or choice.prompt_tokens is None:
        return {}
    return {"prompt_logprobs": prompt_logprobs(choice.prompt_tokens, num_top)}


def _scored_chunk(envelope: Envelope, event: PromptScored, content: bytes, num_top: int | None) -> bytes:
    if num_top is None:
        return b""
    scores = encode(prompt_logprobs(event.tokens, num_top))
    return envelope.chunk(event.index, b'%b,"prompt_logprobs":%b' % (content, scores))
