"""How often a word is false where the control, the runs or the margin are not what they seem.

The default tests take 100 studies a cell, the slow ones 2,000, as docs/statistics.md does
(`benchmarks/verdicts.py`). Rates are in percent.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from false_words import (
    FAILURES,
    LIMITS,
    NOISES,
    OLDER,
    UNTRAINED,
    failures,
    noisy_control,
    plateaus,
    steady_arms,
    untrained_control,
    wide_margin,
)
from planted_rows import ARM, BASELINE, CONTROL, Planted, judge_planted, planted_plan, planted_study

from paribus.analyse import study_findings

SEEDS = (3, 5, 8)
FEW, MANY = 100, 2000
MOST_FALSE = 6.5  # of many studies
# of few: the standard error of 5 % is 2.2 there, and the rules of before gave far more
MOST_FALSE_OF_FEW = 12.0


def most_false(n_studies: int) -> float:
    return MOST_FALSE if n_studies == MANY else MOST_FALSE_OF_FEW


n_studies_of = pytest.mark.parametrize(
    "n_studies", [FEW, pytest.param(MANY, marks=pytest.mark.slow)]
)


@n_studies_of
def test_an_untrained_control_calls_nothing_equal(n_studies: int) -> None:
    for n, margin, start in product(SEEDS, ("100 % of control", 0.42), UNTRAINED):
        assert untrained_control(n, margin, start, n_studies) == 0
    assert untrained_control(5, "100 % of control", "as it was drawn", FEW, OLDER) == 100


@n_studies_of
def test_a_share_of_a_noisy_control_is_seldom_too_much(n_studies: int) -> None:
    variations = (1 / 8, 1 / 3, 1.0, 2.0) if n_studies == MANY else (1 / 8, 1.0)
    for n, variation in product(SEEDS, variations):
        assert noisy_control(n, variation, n_studies).within <= most_false(n_studies)


def test_without_the_condition_that_it_works_a_lucky_control_gives_false_words() -> None:
    found = noisy_control(3, 2.0, 400)
    assert found.works < 25
    assert found.plain > 12 >= found.within


def test_a_clear_control_still_calls_equal_what_is() -> None:
    for n in (5, 8):
        found = noisy_control(n, 1 / 8, FEW, arm_loss=0.0)
        assert found.within == found.plain > 95


@n_studies_of
def test_arms_with_runs_on_a_plateau_are_bimodal_and_others_are_not(n_studies: int) -> None:
    cells = product((*SEEDS, 20), (0.0, 0.1, 0.2, 0.4), NOISES)
    for n, chance, noise in cells:
        if n_studies == FEW and (n == 20 or noise != "normal"):
            continue
        found = plateaus(n, chance, noise, n_studies)
        if chance:
            assert found.seen >= 95
            assert found.false <= most_false(n_studies)
        elif noise == "normal":
            assert found.false_flags <= 1
    assert plateaus(8, 0.4, "normal", FEW, OLDER).false > 20


@pytest.mark.parametrize("n", [3, 8, 20])
@pytest.mark.parametrize("noise", NOISES)
def test_one_heap_with_heavy_tails_is_seldom_taken_for_two(noise: str, n: int) -> None:
    most = 2.5 if (noise, n) == ("lognormal", 20) else 1.0
    n_pairs = 4000
    error = 100 * np.sqrt(most / 100 * (1 - most / 100) / n_pairs)
    assert steady_arms(n, 0.01, n_pairs, noise) <= most + 2 * error


@n_studies_of
def test_an_arm_that_fails_more_often_is_never_favoured(n_studies: int) -> None:
    for n, kind in product(SEEDS, FAILURES):
        found = failures(n, kind, n_studies)
        assert found.different <= most_false(n_studies)
        assert found.favoured == 0


@n_studies_of
def test_a_margin_above_what_was_learnt_calls_nothing_equal(n_studies: int) -> None:
    for n, limit in product(SEEDS, LIMITS):
        assert wide_margin(n, 1.0, limit, n_studies) <= most_false(n_studies)
        for times in (1.5, 3.0):
            assert wide_margin(n, times, limit, n_studies) == 0
    assert wide_margin(8, 3.0, "a tenth of what was learnt", FEW, OLDER) > 90


def test_a_study_on_disk_has_the_words_of_its_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    margins = ("25 % of control", 0.1, 0.35)
    words = set()
    for place in range(50):
        n, margin = (3, 5)[place % 2], margins[place % 3]
        scores = _draw_any(rng, n)
        found = study_findings(planted_study(tmp_path / str(place), scores, margin))
        judged = judge_planted(planted_plan(n, margin), scores)
        (arm,) = found.arms
        own = judged.verdicts.pairs[ARM, BASELINE]
        assert (
            replace(arm.judgement.verdict, seeds="") == own.verdict
        )  # rows alone do not count them
        assert found.margins.against == pytest.approx(judged.margins.against)
        assert bool(found.margins.refusal) == bool(judged.margins.refusal)
        assert found.control is not None
        assert judged.control is not None
        assert found.control.works == judged.control.works
        words.add(own.verdict.word)
    assert {"bimodal", "unstable", "no verdict", "equivalent", "inconclusive", "worse"} <= words


def _draw_any(rng: np.random.Generator, n: int) -> Planted:
    """Scores of any of the five kinds."""
    arm: list[float | None] = (2 + 0.03 * rng.normal(size=n)).tolist()
    control: list[float | None] = (2.8 + 0.05 * rng.normal(size=n)).tolist()
    match rng.integers(6):
        case 0:
            arm[0] = 2.9
        case 1:
            arm[-1] = None
        case 2:
            arm[0] = 5.4
        case 3:
            control[0] = 5.2
        case 4:
            arm = (2.3 + 0.03 * rng.normal(size=n)).tolist()
    return {BASELINE: (2 + 0.03 * rng.normal(size=n)).tolist(), ARM: arm, CONTROL: control}
