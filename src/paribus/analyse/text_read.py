"""How far judged arms differ in the text they read, where their budget is one of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

LARGE_DIFFERENCE = 0.02  # a difference in text that a reader must know of
TOKEN_BUDGETS = ("tokens_read", "tokens_scored")
# of each stage, the epochs of each of its sources
StageEpochs = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class TextRead:
    """What one arm reads in all its steps; `task` is its corpus, with the tokenizer, and
    its objective.
    """

    n_steps: int
    n_bytes: float
    epochs: tuple[float, ...]  # of each source of each text
    task: Any
    stage_epochs: StageEpochs = ()
    stage_texts: tuple[int, ...] = ()  # of each stage: the first stage that reads the same text

    @classmethod
    def of_stages(
        cls, n_steps: int, n_bytes: float, stages: StageEpochs, texts: Sequence[str], task: Any
    ) -> TextRead:
        """From the epochs of each stage and the fingerprint of its text."""
        return cls(
            n_steps=n_steps,
            n_bytes=n_bytes,
            epochs=epochs_by_text(stages, texts),
            task=task,
            stage_epochs=stages,
            stage_texts=tuple(map(list(texts).index, texts)),
        )


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


def parse_epochs(text: str) -> StageEpochs:
    """The epochs of each source in each stage, as the control table writes them: "8.3; 1.18, 0.59".

    A plan of before stages were told apart has one part, the epochs of the last stage's text.
    """
    stages = []
    for part in text.split(";"):
        stages.append(tuple(map(float, part.split(","))))
    return tuple(stages)


def says_every_stage(stages: StageEpochs, texts: Sequence[str]) -> bool:
    """Are there epochs of every stage? `texts` has the fingerprint of each stage's text."""
    return len(stages) == len(texts)


def epochs_by_text(stages: StageEpochs, texts: Sequence[str]) -> tuple[float, ...]:
    """How often each source of each text is read, by all stages that read it; where earlier stages
    are not told, of the last text alone.
    """
    if not says_every_stage(stages, texts):
        return stages[-1]
    totals: dict[str, list[float]] = {}
    for text, own in zip(texts, stages, strict=True):
        before = totals.get(text, [0.0] * len(own))
        totals[text] = [total + more for total, more in zip(before, own, strict=True)]
    return tuple(chain.from_iterable(totals.values()))


def _text_difference(arm: str, against: str, text: TextRead, other: TextRead) -> TextDifference:
    return TextDifference(
        arm=arm,
        against=against,
        bytes_difference=_relative_difference(text.n_bytes, other.n_bytes),
        epochs_difference=_epochs_difference(text, other),
        n_steps=text.n_steps,
        steps_for_equal_bytes=max(
            1, round(text.n_steps / (1 + _relative_difference(text.n_bytes, other.n_bytes)))
        ),
        same_task=text.task == other.task,
    )


def _epochs_difference(text: TextRead, text_of_other: TextRead) -> float:
    """The largest difference of any source; of corpora with other sources, of the one that is
    read most often.

    Where stages share a text in one arm and not in the other, each stage is compared with its like:
    the sum of two stages is no difference to one of them.
    """
    own, other = text.epochs, text_of_other.epochs
    has_same_sources = list(map(len, text.stage_epochs)) == list(
        map(len, text_of_other.stage_epochs)
    )
    if text.stage_texts != text_of_other.stage_texts and has_same_sources:
        own = tuple(chain.from_iterable(text.stage_epochs))
        other = tuple(chain.from_iterable(text_of_other.stage_epochs))
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
