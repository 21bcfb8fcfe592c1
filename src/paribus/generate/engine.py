"""An engine: many requests to one model at once, each answered as if it were alone."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

import torch

from paribus.errors import SpecError, UnsupportedError
from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.answer_stream import AnswerStream, can_cache
from paribus.generate.choosing import token_logprobs
from paribus.generate.requests import RowRequests, TokenChooser
from paribus.generate.sampling import next_logits, require_generation
from paribus.generate.token_request import SaidToken, TokenRequest
from paribus.model import Transformer

CHUNK = 256  # tokens of contexts that are read in one step, beside those of answers


@dataclass(frozen=True)
class EngineState:
    """How much an engine has to do, and what it keeps."""

    n_waiting: int  # requests that have not begun
    n_running: int
    n_blocks: int
    n_bytes: int  # of the blocks


class Engine:
    """Answers requests to one model together; they join and leave between steps.

    `submit` may be called from any thread. `step` and all else that computes belong to one thread:
    the caller's, or that of `start`. A fault in one request ends that request alone.
    """

    def __init__(
        self, model: Transformer, budget_bytes: int, max_rows: int = 32, chunk: int = CHUNK
    ):
        """At most `max_rows` requests run at a time. Blocks of what was read are kept for later
        requests within `budget_bytes`. Of contexts, `chunk` tokens are read a step.
        """
        for name, value, least in (
            ("budget_bytes", budget_bytes, 0),
            ("max_rows", max_rows, 1),
            ("chunk", chunk, 1),
        ):
            if value < least:
                raise SpecError(f"{name} is {value}; use a whole number from {least} up")
        self.model, self.max_rows, self.chunk = model, max_rows, chunk
        self._waiting: deque[AnswerHandle] = deque()
        self._rows: list[_Row] = []
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def submit(self, request: TokenRequest) -> AnswerHandle:
        """Put a request behind those that wait; SpecError or UnsupportedError if it cannot be
        answered.
        """
        inputs_1T = torch.tensor([request.inputs])
        n_vocab = self.model.spec.n_vocab
        if int(inputs_1T.min()) < 0 or int(inputs_1T.max()) >= n_vocab:
            raise SpecError(f"a request has a token outside of 0 to {n_vocab - 1}; leave it out")
        require_generation(
            self.model, request.layout, inputs_1T, request.sampling.n_tokens, lengths=None
        )
        handle = AnswerHandle(request)
        with self._changed:
            if self._is_closed:
                raise UnsupportedError("the engine is closed; make another one")
            self._waiting.append(handle)
            self._changed.notify_all()
        return handle

    @property
    def state(self) -> EngineState:
        """What there is to do at this moment."""
        return EngineState(
            n_waiting=len(self._waiting), n_running=len(self._rows), n_blocks=0, n_bytes=0
        )

    @property
    def is_idle(self) -> bool:
        """Is there nothing to do?"""
        return not self._waiting and not self._rows

    @torch.no_grad()
    def step(self) -> None:
        """Go on with every request by at most one token."""
        self._admit()
        for row in list(self._rows):
            self._advance(row)

    def start(self) -> None:
        """Step in a thread of its own, until `close`."""
        assert self._thread is None
        self._thread = threading.Thread(target=self._run, name="paribus engine", daemon=True)
        self._thread.start()

    def close(self, drain: bool = True) -> None:
        """Take no more requests. Those there are end as they would, or else are cancelled."""
        with self._changed:
            self._is_closed = True
            if not drain:
                for handle in [*self._waiting, *(row.handle for row in self._rows)]:
                    handle.cancel()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            return
        while not self.is_idle:
            self.step()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or not self.is_idle)
                if self._is_closed and self.is_idle:
                    return
            self.step()

    def _admit(self) -> None:
        while self._waiting and len(self._rows) < self.max_rows:
            handle = self._waiting.popleft()
            if handle.is_cancelled:
                handle.finish("cancelled")
                continue
            handle.mark_begin()
            self._rows.append(_Row(self.model, handle))

    def _advance(self, row: _Row) -> None:
        try:
            if row.handle.is_cancelled:
                row.handle.finish("cancelled")
            else:
                row.say()
        except Exception as fault:  # whatever it is, others go on
            row.handle.finish("error", fault)
        if row.handle.finish_reason is not None:
            self._rows.remove(row)


class _Row:
    """A request that is being answered alone."""

    def __init__(self, model: Transformer, handle: AnswerHandle):
        self.model, self.handle = model, handle
        request = handle.request
        self.layout, device = request.layout, model.embedding.weight.device
        self.inputs_1T = torch.tensor([request.inputs], device=device)
        self.answer_1T = torch.tensor([request.layout.opening], dtype=torch.int64, device=device)
        requests = RowRequests([request.sampling], [request.stream])
        self.chooser = TokenChooser(requests, self.layout, model.spec.n_vocab, device)
        self.seen_1V = self.chooser.tokens_seen(self.inputs_1T, None)
        self.tokens: list[int] = []
        self.stream: AnswerStream | None = None

    def say(self) -> None:
        """Say the next token, or finish."""
        sampling, n_opening = self.handle.request.sampling, len(self.layout.opening)
        n_read = n_opening + len(self.tokens)
        n_read += 1 if self.layout.framing == "apart" else self.inputs_1T.shape[1]
        if n_read > self.layout.window or len(self.tokens) == sampling.n_tokens:
            self.handle.finish("length")
            return
        logits_1V = self._logits()
        token_1 = self.chooser.choose(logits_1V, len(self.tokens), self.seen_1V)
        if self.seen_1V is not None:
            self.seen_1V = self.seen_1V.scatter(1, token_1[:, None], True)
        self.answer_1T = torch.cat([self.answer_1T, token_1[:, None]], 1)
        token = int(token_1[0])
        if token in self.layout.end_tokens:
            self.handle.end_token = token
            self.handle.finish("stop")
            return
        self.tokens.append(token)
        said = SaidToken(token)
        if sampling.n_logprobs is not None:
            found = token_logprobs(logits_1V, token_1, sampling.n_logprobs)
            likeliest = zip(
                found.likeliest_BK[0].tolist(), found.logprobs_BK[0].tolist(), strict=True
            )
            said = SaidToken(token, float(found.said_B[0]), tuple(likeliest))
        self.handle.push(said)
        is_done = self.handle.request.is_done
        if is_done is not None and is_done(tuple(self.tokens)):
            self.handle.finish("stop")
        elif len(self.tokens) == sampling.n_tokens:
            self.handle.finish("length")

    def _logits(self) -> torch.Tensor:
        if not can_cache(self.model, self.layout):
            return next_logits(self.model, self.layout, self.inputs_1T, None, self.answer_1T)
        if self.stream is None:
            n_tokens = self.handle.request.sampling.n_tokens
            self.stream = AnswerStream(self.model, self.layout, self.inputs_1T, None, n_tokens)
            self.handle.n_read_tokens = self.inputs_1T.shape[1]
        return self.stream.logits(self.answer_1T[:, len(self.layout.opening) :])
