"""An engine: many requests to one model at once, each answered as if it were alone.

Requests join and leave between steps. A step says one token of every answer, and reads a chunk of
the contexts that are new. What was read stays in blocks, for later requests that begin alike.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import torch

from paribus.errors import ClosedError, SpecError
from paribus.generate.answer_choice import AnswerChooser
from paribus.generate.answer_handle import AnswerHandle
from paribus.generate.answer_rows import AnswerRows
from paribus.generate.block_keys import weights_digest
from paribus.generate.block_pool import BlockPool
from paribus.generate.row_reading import Logits, read_contexts, read_said, rows_to_read
from paribus.generate.running_answer import RunningAnswer
from paribus.generate.sampling import next_logits, require_generation
from paribus.generate.token_request import TokenRequest
from paribus.model import Transformer

CHUNK = 256  # tokens of contexts that are read in one step, beside those of answers
MAX_ROWS = 32


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
        self, model: Transformer, budget_bytes: int, max_rows: int = MAX_ROWS, chunk: int = CHUNK
    ):
        """At most `max_rows` requests run at a time. Blocks of what was read are kept for later
        requests within `budget_bytes`. Of contexts, `chunk` tokens are read in a step.
        """
        for name, value, least in (
            ("budget_bytes", budget_bytes, 0),
            ("max_rows", max_rows, 1),
            ("chunk", chunk, 1),
        ):
            if value < least:
                raise SpecError(f"{name} is {value}; use a whole number from {least} up")
        self.model, self.max_rows, self.chunk = model, max_rows, chunk
        self._weights = weights_digest(model)
        self._pool = BlockPool(budget_bytes)
        self._rows = AnswerRows(model, self._pool)
        self._uncached: list[RunningAnswer] = []  # whose text is read anew for each token
        self._chooser = AnswerChooser()
        self._waiting: deque[AnswerHandle] = deque()
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
        window, max_length = request.layout.window, self.model.spec.max_length
        if window > max_length:
            raise SpecError(
                f"a request has a window of {window}, past max_length {max_length}; use a layout of"
                " this model"
            )
        require_generation(
            self.model, request.layout, inputs_1T, request.sampling.n_tokens, lengths=None
        )
        handle = AnswerHandle(request)
        with self._changed:
            if self._is_closed:
                raise ClosedError("the engine is closed; make another one")
            self._waiting.append(handle)
            self._changed.notify_all()
        return handle

    @property
    def state(self) -> EngineState:
        """What there is to do at this moment."""
        return EngineState(
            n_waiting=len(self._waiting),
            n_running=len(self._running),
            n_blocks=len(self._pool),
            n_bytes=self._pool.n_bytes,
        )

    @property
    def is_idle(self) -> bool:
        """Is there nothing to do?"""
        return not self._waiting and not self._running

    @torch.no_grad()
    def step(self) -> None:
        """Go on with every request by at most one token."""
        try:
            self._drop_cancelled()
            answers = self._next_logits()
            if answers:
                self._say(answers)
        except Exception as fault:  # of the step as a whole: nobody waits for what never comes
            self._fail_all(fault)

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
                for handle in [*self._waiting, *(one.handle for one in self._running)]:
                    handle.cancel()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            return
        while not self.is_idle:
            self.step()

    @property
    def _running(self) -> list[RunningAnswer]:
        return [*self._rows.answers, *self._uncached]

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closed or not self.is_idle)
                if self._is_closed and self.is_idle:
                    return
            self.step()

    def _drop_cancelled(self) -> None:
        with self._changed:
            for handle in [one for one in self._waiting if one.is_cancelled]:
                self._waiting.remove(handle)
                handle.finish("cancelled")
        for answer in self._running:
            if answer.handle.is_cancelled:
                self._end(answer, lambda one: one.handle.finish("cancelled"))

    def _next_logits(self) -> Logits:
        """Logits of the answers that say a token in this step."""
        logits = read_said(self._rows)
        logits += read_contexts(self._rows, self.chunk, self._admit)
        for answer in self._uncached:
            opening_and_said = answer.text[len(answer.handle.request.inputs) :]
            device = self.model.embedding.weight.device
            inputs_1T = torch.tensor([answer.handle.request.inputs], device=device)
            answer_1T = torch.tensor([opening_and_said], dtype=torch.int64, device=device)
            found = next_logits(self.model, answer.layout, inputs_1T, None, answer_1T)
            logits.append((answer, found))
        return logits

    def _admit(self) -> bool:
        """Begin with the request that waits longest; False if there is none, or no room, or what
        it begins with is being read by another one in this step.
        """
        with self._changed:
            if not self._waiting or len(self._running) >= self.max_rows:
                return False
            handle = self._waiting[0]
        try:
            answer = RunningAnswer(handle, self.model, self._weights)
            if self._is_being_read(answer):
                return False
            handle.mark_begin()
            if answer.is_cacheable:
                self._rows.join(answer)
            else:
                self._uncached.append(answer)
        except Exception as fault:  # whatever it is, others go on
            handle.finish("error", fault)
        with self._changed:
            self._waiting.popleft()
        return True

    def _is_being_read(self, answer: RunningAnswer) -> bool:
        """Is the first block that an answer lacks about to be there?"""
        for name in answer.chain.names:
            if name not in self._pool:
                return name in self._names_being_read()
        return False

    def _names_being_read(self) -> set[bytes]:
        names: set[bytes] = set()
        if self._pool.budget_bytes:
            for row in rows_to_read(self._rows):
                names.update(self._rows.answers[row].chain.names)
        return names

    def _say(self, logits: Logits) -> None:
        """Choose and say a token of each answer."""
        answers = [answer for answer, _ in logits]
        chosen = self._chooser.choose(answers, torch.cat([own for _, own in logits]))
        for answer, said in zip(answers, chosen, strict=True):
            self._end(answer, lambda one, said=said: one.say(said))

    def _end(self, answer: RunningAnswer, act: Callable[[RunningAnswer], None]) -> None:
        """Do something to an answer, after which it may be at its end."""
        try:
            act(answer)
        except Exception as fault:  # whatever it is, others go on
            answer.handle.finish("error", fault)
        if answer.handle.finish_reason is None:
            return
        if answer.is_cacheable:
            self._rows.leave(answer)
        else:
            self._uncached.remove(answer)

    def _fail_all(self, fault: Exception) -> None:
        """End what is running; its rows may be half written, so others follow in new ones."""
        for answer in self._running:
            answer.handle.finish("error", fault)
        self._uncached = []
        self._rows = AnswerRows(self.model, self._pool)
