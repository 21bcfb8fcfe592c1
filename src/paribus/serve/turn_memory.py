"""The tokens of what models said in conversations, for the next turn: a text can have other tokens
than those that were said.

A conversation comes back as text, whole, with each request. Its answers are found by a digest of
everything up to their end, salted by who asked, so that nobody can find what another was told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from threading import Lock

from paribus.canonical import canonical_hash
from paribus.corpus.conversations import ASSISTANT, Turn
from paribus.objectives.framing import Ids

MAX_TOKENS = 1 << 20  # that are remembered; those of the oldest answer are forgotten first
_ANSWER_COST = 64  # what an answer takes beside its tokens, counted as tokens


class TurnMemory:
    """Answers by the conversations that they end, the least recently used forgotten first."""

    def __init__(self, max_tokens: int = MAX_TOKENS):
        self._max_tokens, self._n_tokens = max_tokens, 0
        self._answers: OrderedDict[str, Ids] = OrderedDict()
        self._lock = Lock()

    def remember(self, turns: Sequence[Turn], answer: str, ids: Ids, salt: bytes) -> None:
        """Keep the tokens of an answer to some turns."""
        *_, digest = _digests([*turns, Turn(ASSISTANT, answer)], salt)
        with self._lock:
            self._forget(digest)
            self._answers[digest] = ids
            self._n_tokens += len(ids) + _ANSWER_COST
            while self._n_tokens > self._max_tokens:
                self._forget(next(iter(self._answers)))

    def recall(self, turns: Sequence[Turn], salt: bytes) -> list[Ids | None]:
        """For each turn the tokens that were said; None where nobody said it here."""
        contents: list[Ids | None] = []
        with self._lock:
            for turn, digest in zip(turns, _digests(turns, salt), strict=True):
                ids = None
                if turn.role == ASSISTANT and digest in self._answers:
                    self._answers.move_to_end(digest)
                    ids = self._answers[digest]
                contents.append(ids)
        return contents

    def _forget(self, digest: str) -> None:
        ids = self._answers.pop(digest, None)
        if ids is not None:
            self._n_tokens -= len(ids) + _ANSWER_COST


def _digests(turns: Sequence[Turn], salt: bytes) -> Iterator[str]:
    """A digest of the conversation up to the end of each turn."""
    digest = canonical_hash(["conversation", salt.hex()])
    for turn in turns:
        digest = canonical_hash([digest, turn.role, turn.content])
        yield digest
