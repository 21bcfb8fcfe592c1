"""An answer of an engine as text, piece by piece, with the tokens of each piece."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from paribus.generate import Sampling, TextDecoder, TextStream
from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.choosing import sample_stream
from paribus.generate.engine import Engine
from paribus.generate.token_request import SaidToken, TokenRequest
from paribus.objectives.framing import Ids, ItemLayout, lay_context


@dataclass(frozen=True)
class SpokenPiece:
    """Text that is known now, and the tokens that hold it."""

    text: str
    tokens: tuple[SaidToken, ...] = ()


@dataclass(frozen=True)
class AnswerTimes:
    """What an answer cost: tokens of its context that were kept and read, and seconds."""

    n_cached: int
    n_read: int
    seconds_queued: float
    seconds_to_first_token: float | None  # None: nothing was said


@dataclass(frozen=True)
class Question:
    """How an answer is asked for: its settings, its number among the answers of a request, and
    what parts its cache from others'.
    """

    sampling: Sampling
    row: int = 0
    sample: int = 0
    salt: bytes = b""

    def numbered(self, row: int, sample: int, n_tokens: int) -> Question:
        """The question of one of several answers, of so many tokens at most."""
        sampling = replace(self.sampling, n_tokens=n_tokens)
        return replace(self, sampling=sampling, row=row, sample=sample)


class SpokenAnswer:
    """One answer as it is made. `read` gives what came since it was last called."""

    def __init__(self, handle: AnswerHandle, decoder: TextDecoder, question: Question):
        self.handle, self.question = handle, question
        self.text = ""
        self.n_inputs = len(handle.request.inputs)
        self.is_finished = False
        self._decoder = decoder
        self._stream = TextStream(decoder, question.sampling.stop)
        self._said: list[SaidToken] = []
        self._n_given = 0  # tokens that were given with a piece

    @property
    def tokens(self) -> Ids:
        """The tokens that hold its text so far, without what ended it."""
        return tuple(one.token for one in self._said)

    @property
    def finish_reason(self) -> str:
        """Why it ended, in the words of OpenAI."""
        assert self.is_finished
        if self._stream.stop_string is not None or self.handle.finish_reason == "stop":
            return "stop"
        return "length"

    @property
    def is_as_said(self) -> bool:
        """Do its tokens hold its text and nothing else? Not where a stop string ended it in the
        middle of a token.
        """
        return self._decoder.text(self.tokens) == self.text

    @property
    def times(self) -> AnswerTimes:
        handle = self.handle
        return AnswerTimes(
            n_cached=handle.n_cached_tokens,
            n_read=handle.n_read_tokens,
            seconds_queued=handle.seconds_queued or 0.0,
            seconds_to_first_token=handle.seconds_to_first_token,
        )

    def read(self) -> SpokenPiece | None:
        """What came since the last call; None for nothing. A fault of the engine is raised."""
        reason = self.handle.finish_reason  # before its tokens, so that the last are not missed
        if self.is_finished:
            return None
        text = ""
        for token in self.handle.said_tokens[len(self._said) :]:
            self._said.append(token)
            text += self._stream.push(token.token)
            if self._stream.stop_string is not None:
                break
        if reason is not None or self._stream.stop_string is not None:
            self.is_finished = True
            if self.handle.error is not None:
                raise self.handle.error
            text += self._stream.finish()
        self.text += text
        if self._stream.stop_string is not None:
            self._drop_tokens_after_text()
        if not text and not self.is_finished:
            return None
        tokens = tuple(self._said[self._n_given :])
        self._n_given = len(self._said)
        if not text and not tokens:
            return None
        return SpokenPiece(text, tokens)

    def close(self) -> None:
        """Ask for no more of it."""
        self.handle.listen(_do_nothing)
        self.handle.cancel()

    def _drop_tokens_after_text(self) -> None:
        while (
            self._said
            and len(self._said) > self._n_given
            and self._decoder.text(self.tokens[:-1]).startswith(self.text)
        ):
            self._said.pop()


def submit_context(
    engine: Engine,
    layout: ItemLayout,
    decoder: TextDecoder,
    context: Sequence[int],
    question: Question,
) -> SpokenAnswer:
    """Ask an engine for an answer to a context, which must fit."""
    sampling = question.sampling
    request = TokenRequest(
        inputs=lay_context(layout, context, sampling.n_tokens).inputs,
        layout=layout,
        sampling=sampling,
        stream=sample_stream(sampling.seed, question.row, question.sample),
        salt=question.salt,
        is_done=stop_check(decoder, sampling.stop),
    )
    return SpokenAnswer(engine.submit(request), decoder, question)


def stop_check(decoder: TextDecoder, stop: Sequence[str]) -> Callable[[Ids], bool] | None:
    """Says of the tokens of an answer, after each, whether a stop string is complete."""
    if not stop:
        return None
    stream = TextStream(decoder, stop)

    def is_done(tokens: Ids) -> bool:
        stream.push(tokens[-1])
        return stream.stop_string is not None

    return is_done


def _do_nothing() -> None:
    pass
