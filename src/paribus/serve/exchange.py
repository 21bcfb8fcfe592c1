"""A request with its answers while they are made: sent whole, or as a stream."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from paribus.corpus.conversations import Turn
from paribus.errors import ClosedError, ParibusError
from paribus.serve.answer_events import spoken_pieces
from paribus.serve.gate import Gate
from paribus.serve.http_errors import RequestError, ending_error
from paribus.serve.metrics import Metrics
from paribus.serve.responses import DONE, ResponseHead, event
from paribus.serve.served_model import Context, ServedModel
from paribus.serve.spoken_answer import Question, SpokenAnswer, SpokenPiece, submit_context

CLIENT_GONE = 499  # a status that nobody reads
_LOG = logging.getLogger("paribus.serve")


@dataclass(frozen=True, eq=False)
class AskedAnswers:
    """What a request asks of a model: answers to contexts, several of each."""

    served: ServedModel
    head: ResponseHead
    contexts: Sequence[Context]
    question: Question
    n_samples: int
    includes_usage: bool
    turns: tuple[Turn, ...] | None = None  # of a conversation


class Exchange:
    """Answers while they are made. They leave the gate when all have ended, or nobody waits."""

    def __init__(self, asked: AskedAnswers, gate: Gate, metrics: Metrics):
        """Send a request to the engine; RequestError where there is no room."""
        self.asked, self.gate, self.metrics = asked, gate, metrics
        self.answers: list[SpokenAnswer] = []
        self._n_entered = len(asked.contexts) * asked.n_samples
        gate.enter(self._n_entered)
        try:
            self._submit()
        except BaseException:
            self.close()
            raise

    async def whole(self, request: Request) -> Response:
        """The answers as one response; those of a client that has gone are ended."""
        making = asyncio.create_task(self._collect())
        leaving = asyncio.create_task(_client_left(request))
        try:
            await asyncio.wait((making, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not making.done():
                return Response(status_code=CLIENT_GONE)
            head, choices = self.asked.head, []
            for number, piece in enumerate(making.result()):
                choices.append(head.choice(number, self.answers[number], piece))
            return JSONResponse(head.whole(choices, self.answers))
        finally:
            for task in (making, leaving):
                task.cancel()
            self.close()

    def stream(self) -> Response:
        """The answers as server-sent events."""
        return _EventStream(self, self.events())

    def close(self) -> None:
        """End what is still being made; more than once does no harm."""
        for answer in self.answers:
            answer.close()
        self.gate.leave(self._n_entered)
        self._n_entered = 0

    def _submit(self) -> None:
        asked = self.asked
        for row, context in enumerate(asked.contexts):
            for sample in range(asked.n_samples):
                question = asked.question.numbered(row, sample, context.n_tokens)
                answer = submit_context(
                    asked.served.engine,
                    context.layout,
                    asked.served.speaker.decoder,
                    context.tokens,
                    question,
                )
                self.answers.append(answer)

    async def _collect(self) -> list[SpokenPiece]:
        pieces: list[list[SpokenPiece]] = [[] for _ in self.answers]
        async for number, piece in spoken_pieces(self.answers):
            if piece is None:
                self._note_end(self.answers[number])
            else:
                pieces[number].append(piece)
        whole = []
        for own in pieces:
            tokens = tuple(token for piece in own for token in piece.tokens)
            whole.append(SpokenPiece("".join(piece.text for piece in own), tokens))
        return whole

    async def events(self) -> AsyncIterator[bytes]:
        """The lines of a stream."""
        head, n_letters = self.asked.head, [0] * len(self.answers)
        try:
            if head.is_chat:
                for number in range(len(self.answers)):
                    yield event(head.opening_chunk(number))
            async for number, piece in spoken_pieces(self.answers):
                if piece is None:
                    self._note_end(self.answers[number])
                    yield event(head.closing_chunk(number, self.answers[number]))
                else:
                    yield event(head.piece_chunk(number, piece, n_letters[number]))
                    n_letters[number] += len(piece.text)
            if self.asked.includes_usage:
                yield event(head.usage_chunk(self.answers))
        except Exception as fault:  # the status is sent already
            yield event(engine_fault(fault).body)
        finally:
            self.close()
        yield DONE

    def _note_end(self, answer: SpokenAnswer) -> None:
        """Count an answer that has ended, and remember the tokens of what was said."""
        served, times = self.asked.served, answer.times
        numbers = {"said": len(answer.tokens)}
        if answer.question.sample == 0:
            numbers["prompt"] = answer.n_inputs
            numbers["cached"], numbers["read"] = times.n_cached, times.n_read
        self.metrics.count_answer(served.name, answer.finish_reason, numbers)
        if times.seconds_to_first_token is not None:
            self.metrics.observe_first_token(served.name, times.seconds_to_first_token)
        if self.asked.turns is not None and answer.is_as_said:
            salt = answer.question.salt
            served.memory.remember(self.asked.turns, answer.text, answer.tokens, salt)


class _EventStream(StreamingResponse):
    """A stream that ends its answers however it ends, even before its first line."""

    def __init__(self, exchange: Exchange, events: AsyncIterator[bytes]):
        super().__init__(events, media_type="text/event-stream")
        self.exchange = exchange

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.exchange.close()


def engine_fault(fault: Exception) -> RequestError:
    """What a client is told of a fault: what it can mend, and otherwise nothing of the inside."""
    if isinstance(fault, RequestError):
        return fault
    if isinstance(fault, ClosedError):
        return ending_error()
    if isinstance(fault, ParibusError):
        return RequestError(400, str(fault), "invalid_value")
    _LOG.error("a request failed", exc_info=fault)
    return RequestError(500, "the server failed at this request; its log says why", "server_error")


async def _client_left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
