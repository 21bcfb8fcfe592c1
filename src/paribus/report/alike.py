"""Same verdict if the arms were made equal in something else? Only annealed runs get a word.

What is read off a curve in mid-schedule is a gain on validation text, to explore, marked *not annealed*.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from paribus.analyse import (
    Alike,
    Comparison,
    MidSchedule,
    Total,
    alike,
    alike_annealed,
    annealed_lengths,
    compare,
    name_of,
)
from paribus.analyse.failures import margins_at
from paribus.analyse.findings import UNIT, Arm
from paribus.analyse.interval import MIN_SEEDS
from paribus.analyse.seed_scores import scores_at_rate
from paribus.analyse.verdict import Test
from paribus.errors import SpecError
from paribus.report.intervals import between
from paribus.report.material import Material
from paribus.report.numbers import count, decimals, duration, flops, signed

WORDS: dict[Total, str] = {
    "dense_flops": "training FLOPs", "tokens_read": "tokens read", "tokens_scored": "tokens scored",
    "seconds": "seconds",
}  # fmt: skip
WRITERS: dict[Total, Callable[[float], str]] = {
    "dense_flops": flops, "tokens_read": count, "tokens_scored": count, "seconds": duration,
}  # fmt: skip
NOTHING_TO_COMPARE = "there is no verdict to compare with"
STEADY: tuple[Total, ...] = ("dense_flops", "tokens_read", "tokens_scored")
NOT_ANNEALED = "not annealed"
NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Otherwise:
    """What is said of one arm if something else is made equal."""

    arm: str  # empty: all of them
    by: str
    same: str  # yes, no, not annealed, not known, or a dash
    text: str


def otherwise(material: Material) -> list[Otherwise]:
    """By FLOPs and tokens, and at the base rate; what depends on the clock is told among the times."""
    if material.found.agreement.changed:
        return []
    arms = material.found.arms
    found = [_joined([_equal(arm, material, by) for arm in arms]) for by in STEADY]
    found.append(_joined([_base_rate(arm, material) for arm in arms]))
    return [one for lines in found for one in lines]


def by_seconds(material: Material) -> list[Otherwise]:
    """Gains where every run had taken as long; no verdict, for seconds are of a machine and of what else it did."""
    if material.found.agreement.changed:
        return []
    return _joined([replace(_equal(arm, material, "seconds"), same="–") for arm in material.found.arms])


def _joined(lines: list[Otherwise]) -> list[Otherwise]:
    """One line where the same is said of every arm."""
    alone = len({(one.same, one.text) for one in lines}) == 1 and len(lines) > 1
    return [replace(lines[0], arm="")] if alone else lines


def _equal(arm: Arm, material: Material, by: Total) -> Otherwise:
    runs = material.found.runs
    if arm.judgement.verdict.word == "no verdict":
        return Otherwise(arm.name, WORDS[by], "–", NOTHING_TO_COMPARE)
    got, comparable = alike(runs[arm.against], runs[arm.name], by), material.asked_alike(arm.name, arm.against)
    if got.equal and comparable:
        why = "" if by == "seconds" else "by construction: "
        return Otherwise(arm.name, WORDS[by], "yes", f"{why}the totals are equal")
    annealed = None if by == "seconds" or got.equal else _annealed(arm, material, by)
    if annealed is not None:
        return _word_at(arm, material, annealed)
    if not comparable:
        return Otherwise(arm.name, WORDS[by], "–", "not comparable: the arms' curves answer different questions")
    if got.mid_schedule is None:
        return Otherwise(arm.name, WORDS[by], "–", got.reason)
    return _in_mid_schedule(arm, material, got, got.mid_schedule)


def _annealed(arm: Arm, material: Material, by: Total) -> Alike | None:
    """The comparison at the largest total at which both arms have runs that ended; None where there is none."""
    found = material.found
    seeds = sorted(found.runs[arm.against].keys() & found.runs[arm.name].keys())
    before, after = (annealed_lengths(found.table, name, seeds) for name in (arm.against, arm.name))
    return alike_annealed(
        before, after, by, name_of(material.plan.design.primary.measure.table),
        margin=found.margins.against[arm.against], n_comparisons=found.n_comparisons, share=found.share, unit=UNIT,
        open_ended=found.open_ended, test=_test(material),
    )  # fmt: skip


def _word_at(arm: Arm, material: Material, got: Alike) -> Otherwise:
    """What annealed runs say that had spent as much."""
    if got.comparison is None:
        return Otherwise(arm.name, WORDS[got.by], "–", got.reason)
    at, made = WRITERS[got.by](got.at or 0.0), got.comparison
    said = f"{made.verdict.word}{_than(arm, material)} at {at}: {_numbers(made)}, runs annealed to that length"
    return Otherwise(arm.name, WORDS[got.by], _is_same(arm, made), said)


def _in_mid_schedule(arm: Arm, material: Material, got: Alike, read: MidSchedule) -> Otherwise:
    """A gain without a word: at least one of the two arms had not come to the end of its schedule."""
    at = WRITERS[got.by](got.at or 0.0)
    said = f"{NOT_ANNEALED}: gain{_than(arm, material)} {_numbers(read)} at {at}, on validation text; no verdict"
    return Otherwise(arm.name, WORDS[got.by], NOT_ANNEALED, said)


def _test(material: Material) -> Test:
    return material.plan.design.primary.test


def _is_same(arm: Arm, made: Comparison) -> str:
    return "yes" if made.verdict.word == arm.judgement.verdict.word else "no"


def _numbers(made: Comparison | MidSchedule) -> str:
    digits = decimals((made.high - made.low) / 2)
    return f"{signed(made.effect, digits)}, {between(made.low, made.high, digits)}"


def _than(arm: Arm, material: Material) -> str:
    """What an arm is judged against, where that is not the baseline."""
    return "" if arm.against == material.found.baseline else f" against {arm.against}"


def _base_rate(arm: Arm, material: Material) -> Otherwise:
    rate = material.stage(material.found.baseline).training.optimizer.rate
    by = f"the base rate, {rate:g}"
    if arm.judgement.verdict.word == "no verdict":
        return Otherwise(arm.name, by, "–", NOTHING_TO_COMPARE)
    if material.found.rates is None:
        return _written_rate(arm, material, by)
    return _at_base_rate(arm, material, rate, by)


def _at_base_rate(arm: Arm, material: Material, rate: float, by: str) -> Otherwise:
    """What the reported seeds say at the base rate and the reported length; not known where one was not trained so."""
    found, seeds = material.found, material.found.seeds
    column = name_of(material.plan.design.primary.measure.table)
    before, after = (scores_at_rate(found.table, name, rate, column) for name in (arm.against, arm.name))
    if len(seeds) < MIN_SEEDS or any(seed not in before or seed not in after for seed in seeds):
        why = "the reported seeds were not all trained at it, at the reported length"
        return Otherwise(arm.name, by, NOT_KNOWN, why)
    try:
        made = compare(
            [before[seed] - after[seed] for seed in seeds], n_comparisons=found.n_comparisons, share=found.share,
            margin=margins_at(found.margins.against[arm.against], seeds), unit=UNIT, open_ended=found.open_ended,
            test=_test(material),
        )  # fmt: skip
    except SpecError as fault:
        return Otherwise(arm.name, by, "–", str(fault))
    said = f"{made.verdict.word}{_than(arm, material)}: {_numbers(made)}, the reported seeds at that rate"
    return Otherwise(arm.name, by, _is_same(arm, made), said)


def _written_rate(arm: Arm, material: Material, by: str) -> Otherwise:
    """Where nothing was tuned: every arm trained at the rate written for it."""
    if material.one_rate:
        return Otherwise(arm.name, by, "yes", "by construction: all arms trained at it")
    if material.rate(arm.name) == material.rate(arm.against):
        return Otherwise(arm.name, by, "yes", f"by construction: {arm.name} trained at it too")
    return Otherwise(arm.name, by, "–", f"{arm.name} trained at {material.rate(arm.name):g} alone")
