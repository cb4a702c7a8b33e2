"""One choice on its way from token ids to events: detokenize → stop strings → logprobs report → deltas.

Nothing takes a short cut: the text that decoder and matcher held back goes through the same stages at the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import cached_property

from infer.text.stop import StopMatcher
from infer_api.errors import RequestError
from infer_api.requests import EngineOutput, EngineRequest, RowError, TokenLogprobs
from infer_api.services import LOGPROB_FLOOR, Event, Finished, PromptScored, ReplyFinish, TextDelta, TokenText
from infer_api.tokenizers import Decoder, Tokenizer

__all__ = ["ChoiceStream", "describe_token"]

REASONS: Mapping[str, ReplyFinish] = {"stop": "stop", "length": "length", "abort": "abort"}


class ChoiceStream:
    """State of choice `index`. `feed` takes engine outputs in order; `is_finished` is set with the Finished event.

    `num_tokens` counts generated tokens up to the one that ended the sequence or completed a stop string; what the
    engine drew beyond that is not counted and shown nowhere. Reported tokens wait with the text they belong to:

        text so far      |  given out  |  held back (may begin a stop string)  |
        reported tokens  |  given out             ^ one is given out when the first of its characters is
    """

    def __init__(self, index: int, request: EngineRequest, tokenizer: Tokenizer | None) -> None:
        sampling = request.sampling
        self.index = index
        self.request_id = request.request_id
        self.num_tokens = 0
        self.num_cached_tokens = 0
        self.is_finished = False
        self.finish_reason: ReplyFinish = "abort"
        self._eos_ids = () if sampling.ignore_eos else request.eos_ids
        self._tokenizer = tokenizer
        self._request = request
        self._scores: list[TokenLogprobs | None] = []  # of the prompt's tokens, until all are there
        self._lacks_scores = sampling.prompt_logprobs is not None
        self._matcher = (
            StopMatcher(sampling.stop, include=sampling.include_stop_str_in_output) if sampling.stop else None
        )
        self._shows_last = sampling.include_stop_str_in_output
        self._reports = sampling.logprobs is not None
        self._waiting: deque[tuple[int, TokenText]] = deque()  # (where its text starts, token), in order
        self._num_decoded = 0  # characters out of the decoder
        self._num_given = 0  # characters in deltas
        self._new_ids: list[int] = []

    @cached_property
    def _decoder(self) -> Decoder | None:
        """Made with the first output, so that a tokenizer that fails is a fault of this choice alone."""
        return _start_decoder(self._request, self._tokenizer)

    def feed(self, output: EngineOutput) -> list[Event]:
        """Events that follow from one engine output. Raises the RequestError that the engine ended it with."""
        if output.finish_reason == "error":
            raise _failure(output.error or RowError("the engine gave no reason"))
        self.num_cached_tokens = max(self.num_cached_tokens, output.num_cached_tokens)
        return [*self._take_scores(output), *self._take_text(output)]

    def _take_scores(self, output: EngineOutput) -> list[Event]:
        """The prompt's scores, once all of them have come: an engine sends them as it works through the prompt."""
        ids = self._request.prompt_ids
        self._scores.extend(output.prompt_logprobs or ())
        if not self._lacks_scores:
            return []
        if len(self._scores) < len(ids):
            if output.finish_reason in ("stop", "length"):
                raise _failure(RowError(f"{len(self._scores)} of {len(ids)} tokens of the prompt were scored"))
            return []
        self._lacks_scores = False
        entries, self._scores = self._scores, []
        tokens = (
            _token_text(token_id, None, self._tokenizer) if entry is None else describe_token(entry, self._tokenizer)
            for token_id, entry in zip(ids, entries, strict=True)
        )
        return [PromptScored(self.index, tuple(tokens))]

    def _take_text(self, output: EngineOutput) -> list[Event]:
        text, matched = self._take_tokens(output)
        if matched is not None:
            return self._end(text, "stop", matched)
        if output.finish_reason is None:
            return self._delta(text)
        stop_reason = None if output.stop_token_id in self._eos_ids else output.stop_token_id
        tail, matched = self._flush()
        if matched is not None:
            return self._end(text + tail, "stop", matched)
        return self._end(text + tail, REASONS[output.finish_reason], stop_reason)

    def _take_tokens(self, output: EngineOutput) -> tuple[str, str | None]:
        """Text of the new tokens that may be shown, and the stop string that was met."""
        last_hidden = len(output.token_ids) - 1 if output.stop_token_id is not None and not self._shows_last else None
        shown: list[str] = []
        for at, token_id in enumerate(output.token_ids):
            self.num_tokens += 1
            self._new_ids.append(token_id)
            if at == last_hidden:
                break
            text = self._decoder.feed(token_id) if self._decoder is not None else ""
            if self._reports:
                self._report(output, at)
            self._num_decoded += len(text)
            if self._matcher is not None:
                text, matched = self._matcher.feed(text)
                if matched is not None:
                    return "".join([*shown, text]), matched
            shown.append(text)
        return "".join(shown), None

    def _report(self, output: EngineOutput, at: int) -> None:
        if output.logprobs is not None:
            self._waiting.append((self._num_decoded, describe_token(output.logprobs[at], self._tokenizer)))

    def _flush(self) -> tuple[str, str | None]:
        """What decoder and matcher still hold; the tail of the decoder may yet complete a stop string."""
        if not self.num_tokens:
            return "", None  # the decoder holds what the prompt's last token began, if anything
        tail = self._decoder.finish() if self._decoder is not None else ""
        self._num_decoded += len(tail)
        if self._matcher is None:
            return tail, None
        text, matched = self._matcher.feed(tail)
        return (text, matched) if matched is not None else (text + self._matcher.finish(), None)

    def _end(self, text: str, reason: ReplyFinish, stop_reason: str | int | None) -> list[Event]:
        self.is_finished = True
        self.finish_reason = reason
        tokens = self._release(self._num_given + len(text), everything=not isinstance(stop_reason, str))
        events: list[Event] = []
        if text or tokens or self._new_ids:
            events.append(TextDelta(self.index, text, tokens, tuple(self._new_ids)))
        events.append(Finished(self.index, reason, stop_reason))
        return events

    def _delta(self, text: str) -> list[Event]:
        """A delta when there is text; ids without text ride with the next one."""
        if not text and self._decoder is not None:
            return []
        self._num_given += len(text)
        ids, self._new_ids = tuple(self._new_ids), []
        tokens = self._release(self._num_given, everything=self._decoder is None)
        return [TextDelta(self.index, text, tokens, ids)]

    def _release(self, num_given: int, *, everything: bool) -> tuple[TokenText, ...]:
        """Waiting tokens whose text has started by character `num_given`; or all of them."""
        tokens = []
        while self._waiting and (everything or self._waiting[0][0] < num_given):
            tokens.append(self._waiting.popleft()[1])
        return tuple(tokens)


def describe_token(entry: TokenLogprobs, tokenizer: Tokenizer | None) -> TokenText:
    """A logprobs report with texts. Alternatives without a token (a padded vocabulary) are left out."""
    top = (
        _token_text(token_id, logprob, tokenizer)
        for token_id, logprob in zip(entry.top_ids, entry.top_logprobs, strict=True)
        if tokenizer is None or 0 <= token_id < tokenizer.vocab_size
    )
    return _token_text(entry.token_id, entry.logprob, tokenizer, tuple(top))


def _token_text(
    token_id: int, logprob: float | None, tokenizer: Tokenizer | None, top: tuple[TokenText, ...] = ()
) -> TokenText:
    data = _find_bytes(token_id, tokenizer)
    if logprob is not None and not logprob > LOGPROB_FLOOR:  # written so that NaN is floored, too
        logprob = LOGPROB_FLOOR
    return TokenText(token_id, data.decode("utf-8", "replace"), tuple(data), logprob, top)


def _failure(error: RowError) -> RequestError:
    message = error.message if error.status < 500 else f"generation failed: {error.message}"
    return RequestError(message, code=error.code, status=error.status)


def _find_bytes(token_id: int, tokenizer: Tokenizer | None) -> bytes:
    if tokenizer is None:
        return b""
    try:
        return tokenizer.token_bytes(token_id)
    except RequestError:  # a gap in the vocabulary
        return b""


def _start_decoder(request: EngineRequest, tokenizer: Tokenizer | None) -> Decoder | None:
    """A decoder that knows that text goes before: a continuation keeps its first space."""
    if tokenizer is None:
        return None
    decoder = tokenizer.stream(request.sampling.skip_special_tokens)
    if request.prompt_ids[-1] not in tokenizer.special_ids():
        decoder.feed(request.prompt_ids[-1])
    return decoder
