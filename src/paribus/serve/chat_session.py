"""A conversation that a terminal holds with a model: it owns its tokens, and what the model said is
never made into tokens again.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass

from paribus.corpus.conversations import ASSISTANT, Turn
from paribus.errors import SpecError
from paribus.generate import Sampling
from paribus.generate.engine import Engine
from paribus.objectives.framing import Ids
from paribus.serve.speaker import Speaker, context_fits
from paribus.serve.spoken_answer import Question, SpokenAnswer, submit_context

SYSTEM, USER = "system", "user"


@dataclass(frozen=True)
class TurnStats:
    """What one answer cost."""

    n_context: int  # tokens before the answer
    n_cached: int  # of these, what was kept from before
    n_read: int  # of these, what was read
    n_said: int
    seconds_to_first_token: float
    seconds: float
    n_dropped_turns: int  # the oldest, for which the window had no room
    finish_reason: str

    @property
    def tokens_per_second(self) -> float | None:
        """How fast the answer was after its first token; None where it has no other."""
        rest = self.seconds - self.seconds_to_first_token
        if self.n_said < 2 or rest <= 0:
            return None
        return (self.n_said - 1) / rest


class ChatSession:
    """Turns with a model, over an engine. A model that was not trained on conversations goes on
    from all that was said.
    """

    def __init__(self, speaker: Speaker, engine: Engine, system: str | None = None):
        if system is not None and not speaker.can_chat:
            raise SpecError(
                f"system is {system!r:.40}, but {speaker.name!r} was not trained on conversations;"
                " leave it out"
            )
        self.speaker, self.engine, self.system = speaker, engine, system
        self.stats: list[TurnStats] = []
        self.turns: list[Turn] = []
        self._contents: list[Ids | None] = []
        self.reset()

    def reset(self) -> None:
        """Forget what was said."""
        self.stats, self.turns, self._contents = [], [], []
        if self.system is not None:
            self.turns, self._contents = [Turn(SYSTEM, self.system)], [None]

    def say(self, text: str, sampling: Sampling) -> Generator[str, None, None]:
        """Say something; the answer comes in pieces. What is left of the iterator is not said."""
        begin = time.monotonic()
        if not text.strip():
            raise SpecError("the message is empty; write something")
        self._add(USER, text, None)
        try:
            n_dropped = self._make_room(sampling.n_tokens)
        except SpecError:
            self._remove_last()
            raise
        layout, context = self.speaker.chat_layout, self.context_tokens()
        answer = submit_context(
            self.engine, layout, self.speaker.decoder, context, Question(sampling)
        )
        try:
            for _ in answer.handle:
                piece = answer.read()
                if piece is not None and piece.text:
                    yield piece.text
            piece = answer.read()
            if piece is not None and piece.text:
                yield piece.text
        finally:
            answer.close()
            self._keep_answer(answer, begin, n_dropped)

    def context_tokens(self) -> list[int]:
        """All that was said, in tokens, up to where the model speaks."""
        if self.speaker.can_chat:
            return self.speaker.chat_tokens(self.turns, self._contents)
        return _plain_tokens(self.speaker, self.turns, self._contents)

    def _keep_answer(self, answer: SpokenAnswer, begin: float, n_dropped: int) -> None:
        content = None
        if answer.is_as_said:
            content = answer.tokens
        self._add(ASSISTANT, answer.text, content)
        times, seconds = answer.times, time.monotonic() - begin
        reason = "cancelled"
        if answer.is_finished:
            reason = answer.finish_reason
        self.stats.append(
            TurnStats(
                n_context=answer.n_inputs,
                n_cached=times.n_cached,
                n_read=times.n_read,
                n_said=len(answer.tokens),
                seconds_to_first_token=times.seconds_to_first_token or seconds,
                seconds=seconds,
                n_dropped_turns=n_dropped,
                finish_reason=reason,
            )
        )

    def _make_room(self, n_tokens: int) -> int:
        """Drop the oldest turns until all others and an answer fit; how many were dropped."""
        layout, n_dropped = self.speaker.chat_layout, 0
        while not context_fits(layout, self.context_tokens(), n_tokens):
            n_oldest = _n_oldest_turns(self.turns)
            if n_oldest == 0:
                raise SpecError(
                    f"the message and an answer of {n_tokens} tokens do not fit into the window of"
                    f" {layout.window}; write less, or use fewer --tokens"
                )
            first = int(self.system is not None)
            del self.turns[first : first + n_oldest]
            del self._contents[first : first + n_oldest]
            n_dropped += n_oldest
        return n_dropped

    def _add(self, role: str, content: str, ids: Ids | None) -> None:
        self.turns.append(Turn(role, content))
        self._contents.append(ids)

    def _remove_last(self) -> None:
        self.turns.pop()
        self._contents.pop()


def _n_oldest_turns(turns: Sequence[Turn]) -> int:
    """How many turns the oldest exchange has that can be dropped: up to the next word of a user.
    The last exchange, which is to be answered, cannot.
    """
    users = [place for place, turn in enumerate(turns) if turn.role == USER]
    if len(users) < 2:
        return 0
    return users[1] - users[0]


def _plain_tokens(
    speaker: Speaker, turns: Sequence[Turn], contents: Sequence[Ids | None]
) -> list[int]:
    """All that was said, one after another, for a model that knows no turns."""
    ids: list[int] = []
    for place, (turn, own) in enumerate(zip(turns, contents, strict=True)):
        if own is not None:
            ids += own
        elif place == 0:
            ids += speaker.text_tokens(turn.content)
        else:
            ids += speaker.checkpoint.tokenizer.encode(turn.content)
    return ids
