"""How far judged arms differ in the text they read, where their budget is one of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

LARGE_DIFFERENCE = 0.02  # a difference in text that a reader must know of
TOKEN_BUDGETS = ("tokens_read", "tokens_scored")


@dataclass(frozen=True)
class TextRead:
    """What one arm reads in all its steps; `question` is its corpus, with the tokenizer, and
    its objective.
    """

    n_steps: int
    n_bytes: float
    epochs: tuple[float, ...]  # of each source
    task: Any


@dataclass(frozen=True)
class TextDifference:
    """An arm's text over the text of the arm it is judged against, less 1;
    `steps_for_equal_bytes` would make bytes equal.
    """

    arm: str
    against: str
    bytes_difference: float
    epochs_difference: float
    n_steps: int
    steps_for_equal_bytes: int
    same_task: bool

    @property
    def is_large(self) -> bool:
        return max(abs(self.bytes_difference), abs(self.epochs_difference)) > LARGE_DIFFERENCE

    @property
    def is_confound(self) -> bool:
        """Could the text have been equal?

        Under one corpus, tokenizer and objective it could, by another number of steps. Bytes and
        epochs must both differ: bytes alone differ by the sample they are estimated from, epochs
        alone by what rows are too short for.
        """
        both = min(abs(self.bytes_difference), abs(self.epochs_difference)) > LARGE_DIFFERENCE
        return self.same_task and both and self.steps_for_equal_bytes != self.n_steps


def text_differences(
    budget: str | None, pairs: Sequence[tuple[str, str]], arms: Mapping[str, TextRead]
) -> tuple[TextDifference, ...]:
    """One for each judged pair; none where the budget is not one of tokens."""
    if budget not in TOKEN_BUDGETS:
        return ()
    return tuple(_text_difference(arm, against, arms[arm], arms[against]) for arm, against in pairs)


def parse_epochs(text: str) -> tuple[float, ...]:
    """The epochs of each source, as the control table writes them: "1.18, 0.59"."""
    return tuple(map(float, text.split(",")))


def _text_difference(arm: str, against: str, text: TextRead, other: TextRead) -> TextDifference:
    return TextDifference(
        arm=arm,
        against=against,
        bytes_difference=_relative_difference(text.n_bytes, other.n_bytes),
        epochs_difference=_epochs_difference(text.epochs, other.epochs),
        n_steps=text.n_steps,
        steps_for_equal_bytes=max(
            1, round(text.n_steps / (1 + _relative_difference(text.n_bytes, other.n_bytes)))
        ),
        same_task=text.task == other.task,
    )


def _epochs_difference(own: Sequence[float], other: Sequence[float]) -> float:
    """The largest difference of any source; of corpora with other sources, of the one that is
    read most often.
    """
    if len(own) != len(other):
        own, other = (max(own),), (max(other),)
    return max(map(_relative_difference, own, other), key=abs)


def _relative_difference(own: float, other: float) -> float:
    """own / other - 1; nothing where either is zero, as bytes of a tokenizer that knows no byte
    of the text.
    """
    if own and other:
        return own / other - 1
    return 0.0
