"""How often a word is false where the control, the runs or the margin are not what they seem: five
kinds of studies, judged from the rows of their runs.

Scores are bits per byte: the unigram model takes 5 and the baseline 2, so that 3 were learnt. Each
cell is of so many studies under one fixed generator.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from noise_draws import heavy_tailed, normal, skewed
from numpy.typing import NDArray
from planted_rows import (
    ARM,
    BASELINE,
    CONTROL,
    UNIGRAM,
    Margin,
    Planted,
    judge_planted,
    planted_plan,
)

from paribus.analyse.heaps import find_heaps
from paribus.analyse.judgement import Judgement
from paribus.analyse.margin_limits import MAX_CONTROL_SHARE, MAX_LEARNT_SHARE
from paribus.analyse.plan_family import FOURTH_EDITION
from paribus.analyse.study_findings import TableVerdicts
from paribus.analyse.verdict import LESS_THAN_MARGIN
from paribus.spec.measure import LIKELIHOOD

LEARNT = 3.0
BASE = UNIGRAM - LEARNT
NOISE = 0.01 * LEARNT  # sd of a run
CONTROL_LOSS = 0.8  # of a control that was trained
CONTROL_SHARE = 0.25  # of a margin in shares of the control
PLATEAU_DEPTH = 0.3 * LEARNT
NOISES = {"normal": normal, "t, 3 df": heavy_tailed, "lognormal": skewed}
OLDER = FOURTH_EDITION - 1  # the rules of before, to compare with

Array = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Planted]


@dataclass(frozen=True)
class Study:
    """One simulated study: what was planted, and what was found."""

    planted: Planted
    judged: TableVerdicts

    @property
    def judgement(self) -> Judgement:
        return self.judged.verdicts.pairs[ARM, BASELINE]

    @property
    def word(self) -> str:
        return self.judgement.verdict.word

    @property
    def is_within(self) -> bool:
        """Does a word say that the difference is less than the margin?"""
        return self.word == "equivalent" or self.judgement.verdict.detail == LESS_THAN_MARGIN

    @property
    def is_within_plain_share(self) -> bool:
        """Does the gain lie within CONTROL_SHARE of the plain lower end of the control's loss?"""
        control, comparison = self.judged.control, self.judgement.comparison
        if control is None or comparison is None:
            return False
        margin = CONTROL_SHARE * control.low
        return -margin < comparison.inner_low and comparison.inner_high < margin

    @property
    def is_different(self) -> bool:
        return self.word in ("better", "worse")

    @property
    def control_works(self) -> bool:
        return self.judged.control is not None and self.judged.control.works


def simulate(
    draw: Draw, n_seeds: int, margin: Margin, n_studies: int, edition: int
) -> Iterator[Study]:
    rng = np.random.default_rng(43)
    plan = planted_plan(n_seeds, margin, edition=edition)
    for _ in range(n_studies):
        planted = draw(rng, n_seeds)
        yield Study(planted, judge_planted(plan, planted))


def percent(said: list[bool]) -> float:
    """In how many of 100; 0 of none."""
    return 100 * float(np.mean(said)) if said else 0.0


def _runs(rng: np.random.Generator, n: int, mean: float, noise: float = NOISE) -> Array:
    return mean + noise * rng.normal(size=n)


def _planted(baseline: Array, arm: Array, control: Array) -> Planted:
    return {BASELINE: baseline.tolist(), ARM: arm.tolist(), CONTROL: control.tolist()}


UNTRAINED = {"as it was drawn": (8.0, 0.1), "at the unigram model": (UNIGRAM, 0.001)}


def untrained_control(
    n: int, margin: Margin, start: str, n_studies: int, edition: int = FOURTH_EDITION
) -> float:
    """Words within the margin, of an arm that loses half of what a trained control would."""

    def draw(rng: np.random.Generator, n: int) -> Planted:
        arm = _runs(rng, n, BASE + CONTROL_LOSS / 2)
        return _planted(_runs(rng, n, BASE), arm, _runs(rng, n, *UNTRAINED[start]))

    return percent([one.is_within for one in simulate(draw, n, margin, n_studies, edition)])


@dataclass(frozen=True)
class NoisyControlRates:
    """How many controls work; of the studies whose control does, how many words are within the
    margin, and how many would be if the margin were a share of the plain lower end.
    """

    works: float
    within: float
    plain: float


def noisy_control(
    n: int,
    variation: float,
    n_studies: int,
    edition: int = FOURTH_EDITION,
    *,
    arm_loss: float = CONTROL_SHARE,
    noise: float = NOISE / 2,
) -> NoisyControlRates:
    """A margin of 25 % of control, and an arm that loses this share of the control's true loss: at
    25 % every word within the margin is false, at 0 none is. The control's loss varies over seeds
    by so much of its mean.
    """
    loss = CONTROL_LOSS / 2  # so that a tenth of what was learnt seldom decides

    def draw(rng: np.random.Generator, n: int) -> Planted:
        baseline = _runs(rng, n, BASE, noise)
        control = baseline + loss * (1 + variation * rng.normal(size=n))
        return _planted(baseline, _runs(rng, n, BASE + arm_loss * loss, noise), control)

    studies = list(simulate(draw, n, f"{100 * CONTROL_SHARE:g} % of control", n_studies, edition))
    working = [one for one in studies if one.control_works]
    return NoisyControlRates(
        works=percent([one.control_works for one in studies]),
        within=percent([one.is_within for one in working]),
        plain=percent([one.is_within_plain_share for one in working]),
    )


@dataclass(frozen=True)
class PlateauRates:
    """Of studies with a run on each side: how many are `bimodal`, and how many have a word of t.
    Of the others: how many are `bimodal`. Of all: how many are called equal.
    """

    seen: float
    false: float
    false_flags: float
    equal: float


def plateaus(
    n: int, chance: float, noise: str, n_studies: int, edition: int = FOURTH_EDITION
) -> PlateauRates:
    """Runs of one arm stay on a plateau with this chance; where they do not, the arms are equal."""

    is_mixed: list[bool] = []

    def draw(rng: np.random.Generator, n: int) -> Planted:
        runs = [BASE + NOISE * NOISES[noise](rng, (n,)) for _ in range(2)]
        stuck = rng.random(n) < chance
        is_mixed.append(bool(stuck.any() and not stuck.all()))
        control = _runs(rng, n, BASE + CONTROL_LOSS)
        return _planted(runs[0], runs[1] + PLATEAU_DEPTH * stuck, control)

    mixed: list[Study] = []
    others: list[Study] = []
    for study in simulate(draw, n, 0.1, n_studies, edition):
        (mixed if is_mixed[-1] else others).append(study)
    return PlateauRates(
        seen=percent([one.word == "bimodal" for one in mixed]),
        false=percent([one.is_different or one.is_within for one in mixed]),
        false_flags=percent([one.word == "bimodal" for one in others]),
        equal=percent([one.is_within for one in (*mixed, *others)]),
    )


def steady_arms(n: int, spread: float, n_studies: int, noise: str = "normal") -> float:
    """How many pairs of arms of one heap are split; `spread` is the sd of a run as a part of R."""
    rng, flags = np.random.default_rng(47), []
    for _ in range(n_studies):
        scores = {}
        for arm in (BASELINE, ARM):
            runs = BASE + spread * LEARNT * NOISES[noise](rng, (n,))
            scores[arm] = dict(enumerate(runs.tolist()))
        flags.append(bool(find_heaps(scores, LEARNT, LIKELIHOOD).middles))
    return percent(flags)


@dataclass(frozen=True)
class FailureRates:
    """Of all studies: how many say `better` or `worse` of arms that do not differ where both train.
    Of those in which one arm failed more often: how many say that arm is better, or equal.
    """

    different: float
    favoured: float


FAILURES = {
    "one run in five, in both arms": (0.2, 0.2, False),
    "one run in five, in one arm": (0.0, 0.2, False),
    "two runs in five, in one arm": (0.0, 0.4, False),
    "the worst fifth of one arm's runs": (0.0, 0.2, True),
}


def failures(n: int, kind: str, n_studies: int, edition: int = FOURTH_EDITION) -> FailureRates:
    """Runs that diverge, by chance or because they would have been the worst."""
    baseline_share, arm_share, worst = FAILURES[kind]
    limit = BASE + 0.8416 * NOISE  # a fifth of runs lie above it

    def lost(rng: np.random.Generator, runs: Array, share: float) -> list[float | None]:
        fails = runs > limit if worst and share else rng.random(len(runs)) < share
        return [None if fail else score for fail, score in zip(fails, runs.tolist(), strict=True)]

    def draw(rng: np.random.Generator, n: int) -> Planted:
        return {
            BASELINE: lost(rng, _runs(rng, n, BASE), baseline_share),
            ARM: lost(rng, _runs(rng, n, BASE), arm_share),
            CONTROL: _runs(rng, n, BASE + CONTROL_LOSS).tolist(),
        }

    different, favoured = [], []
    for study in simulate(draw, n, 0.1, n_studies, edition):
        different.append(study.is_different)
        lacking = study.planted[ARM].count(None) - study.planted[BASELINE].count(None)
        if lacking:
            winner = "better" if lacking > 0 else "worse"
            favoured.append(study.word in (winner, "equivalent"))
    return FailureRates(percent(different), percent(favoured))


LIMITS = {
    "a tenth of what was learnt": (MAX_LEARNT_SHARE * LEARNT, 2.0),
    "half of the control": (MAX_CONTROL_SHARE * CONTROL_LOSS / 2, CONTROL_LOSS / 2),
}


def wide_margin(
    n: int, times: float, limit: str, n_studies: int, edition: int = FOURTH_EDITION
) -> float:
    """Words within a margin of so many times the limit, of an arm that loses 0.9 of that margin; at
    the limit itself, of one that loses all of it.
    """
    largest, control_loss = LIMITS[limit]
    margin = times * largest
    loss = margin if times == 1 else 0.9 * margin

    def draw(rng: np.random.Generator, n: int) -> Planted:
        control = _runs(rng, n, BASE + control_loss)
        return _planted(_runs(rng, n, BASE), _runs(rng, n, BASE + loss), control)

    return percent([one.is_within for one in simulate(draw, n, margin, n_studies, edition)])
