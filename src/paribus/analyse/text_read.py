"""How far judged arms differ in the text they read, where their budget is one of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LARGE = 0.02  # a difference in text that a reader must know of
TOKEN_BUDGETS = ("tokens_read", "tokens_scored")


@dataclass(frozen=True)
class TextRead:
    """What one arm reads in all its steps; `question` is its corpus, with the tokenizer, and its objective."""

    n_steps: int
    n_bytes: float
    epochs: tuple[float, ...]  # of each source
    question: Any


@dataclass(frozen=True)
class TextDifference:
    """An arm's text over the text of the arm it is judged against, less 1; `equal_steps` would make bytes equal."""

    arm: str
    against: str
    n_bytes: float
    epochs: float
    n_steps: int
    equal_steps: int
    same_question: bool

    @property
    def is_large(self) -> bool:
        return max(abs(self.n_bytes), abs(self.epochs)) > LARGE

    @property
    def is_confound(self) -> bool:
        """Could the text have been equal?

        Under one corpus, tokenizer and objective it could, by another number of steps. Bytes and epochs must both
        differ: bytes alone differ by the sample they are estimated from, epochs alone by what rows are too short for.
        """
        both = min(abs(self.n_bytes), abs(self.epochs)) > LARGE
        return self.same_question and both and self.equal_steps != self.n_steps


def text_differences(
    budget: str | None, pairs: Sequence[tuple[str, str]], arms: Mapping[str, TextRead]
) -> tuple[TextDifference, ...]:
    """One for each judged pair; none where the budget is not one of tokens."""
    if budget not in TOKEN_BUDGETS:
        return ()
    return tuple(_difference(arm, against, arms[arm], arms[against]) for arm, against in pairs)


def epochs_of(written: str) -> tuple[float, ...]:
    """The epochs of each source, as the control table writes them: "1.18, 0.59"."""
    return tuple(float(one) for one in written.split(","))


def _difference(arm: str, against: str, own: TextRead, other: TextRead) -> TextDifference:
    return TextDifference(
        arm=arm,
        against=against,
        n_bytes=_relative_difference(own.n_bytes, other.n_bytes),
        epochs=_epochs_apart(own.epochs, other.epochs),
        n_steps=own.n_steps,
        equal_steps=max(1, round(own.n_steps / (1 + _relative_difference(own.n_bytes, other.n_bytes)))),
        same_question=own.question == other.question,
    )


def _epochs_apart(own: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of any source; of corpora with other sources, of the one that is read most often."""
    if len(own) != len(other):
        own, other = (max(own),), (max(other),)
    return max((_relative_difference(a, b) for a, b in zip(own, other, strict=True)), key=abs)


def _relative_difference(own: float, other: float) -> float:
    """own / other - 1; nothing where either is zero, as bytes of a tokenizer that knows no byte of the text."""
    return own / other - 1 if own and other else 0.0
