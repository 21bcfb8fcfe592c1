"""Many verdicts at a glance: a line a comparison, from four on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from paribus.analyse import Comparison
from paribus.analyse.findings import UNIT, Arm
from paribus.analyse.verdict import Word
from paribus.report.intervals import NONE, decided_cell, digits_of, multiplied, percent_level
from paribus.report.material import Material
from paribus.report.numbers import FEW, signed, some
from paribus.report.verdicts import advice_on

COMPUTE = "compute multiplier"
TALLIED = {"no verdict": "without a verdict"}  # words that read otherwise after a number


@dataclass(frozen=True)
class Brief:
    """One comparison in a line; `advice` is what it would take, where nothing can be said."""

    arm: str
    against: str
    word: str
    detail: str
    gain: str
    interval: str
    compute: str
    advice: str
    is_control: bool

    @property
    def cells(self) -> tuple[str, ...]:
        """The line as text."""
        control = " (the positive control)" if self.is_control else ""
        word = f"{self.word}, {self.detail}" if self.detail else self.word
        gain = f"{self.gain}; {self.interval}" if self.interval else self.gain
        return f"{self.arm} against {self.against}{control}", word, gain, self.compute, self.advice


def overview(material: Material) -> list[Brief]:
    """Every comparison, the positive control last; none of so few that each has room for its sentences."""
    briefs = [_brief(arm, arm.name == material.control) for arm in material.found.arms]
    return sorted(briefs, key=lambda one: one.is_control) if len(briefs) > FEW else []


def headings(briefs: Sequence[Brief], material: Material) -> tuple[str, ...]:
    """Of the columns: comparison, verdict, gain, compute, and advice where there is any."""
    advice = ("what it would take",) if any(one.advice for one in briefs) else ()
    made = (arm.judgement.comparison for arm in material.found.arms)
    level = next((f"; {percent_level(one.level)} interval" for one in made if one is not None), "")
    return "comparison", "verdict", f"gain, {UNIT}{level}", COMPUTE, *advice


def tally(briefs: Sequence[Brief], material: Material) -> str:
    """How many comparisons got which word; a positive control is not counted."""
    counts = Counter(one.word for one in briefs if not one.is_control)
    many = len(counts) > 1
    words = [f"{counts[word] if many else 'all'} {TALLIED.get(word, word)}" for word in get_args(Word) if counts[word]]
    control = " and a positive control" if counts.total() < len(briefs) else ""
    made = some(counts.total(), "comparison")
    return f"{made}{control} over {some(len(material.found.seeds), 'paired seed')}: {', '.join(words)}."


def _brief(arm: Arm, is_control: bool) -> Brief:
    judgement, made = arm.judgement, arm.judgement.comparison
    word = judgement.verdict.word
    advice = advice_on(arm)
    detail = "" if word == "equivalent" else judgement.verdict.detail
    return Brief(
        arm.name, arm.against, word, "; ".join(filter(None, (detail, judgement.verdict.doubt))),
        *((NONE, "") if made is None else _gain(made)), NONE if made is None else multiplied(arm.multiplier),
        "" if advice is None else advice.brief, is_control,
    )  # fmt: skip


def _gain(made: Comparison) -> tuple[str, str]:
    return signed(made.effect, digits_of(made)), decided_cell(made)
