"""T25: whoever follows the printed advice to the letter says something false no more often than
5 % allows.
"""

import re
from functools import lru_cache

import numpy as np
import pytest
from noise_draws import N_DRAWS

from paribus.analyse import Comparison, compare
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import interval

FALSE = ("better", "worse")
FRESH = re.compile(r"(\d+) fresh seeds, judged alone")


def advised_seeds(made: Comparison) -> int | None:
    """How many fresh seeds the words of a comparison ask for first; None where they ask for
    none.
    """
    found = FRESH.search(made.description)
    return None if found is None else int(found[1])


@lru_cache
def first_studies(
    n: int, margin: float, n_comparisons: int
) -> tuple[tuple[list[float], str, int | None], ...]:
    """Studies without any effect: their gains, their word, and how many fresh seeds an
    inconclusive one asks for.
    """
    found = []
    for gains in np.random.default_rng(271 + n).normal(size=(N_DRAWS, n)).tolist():
        made = compare(gains, Criterion(margin=margin, n_comparisons=n_comparisons))
        found.append(
            (
                gains,
                made.verdict.word,
                advised_seeds(made) if made.verdict.word == "inconclusive" else None,
            )
        )
    return tuple(found)


def is_false(gains: list[float], n_comparisons: int = 1) -> bool:
    """Does the interval, at the level of the family, leave zero out? The word follows from it."""
    low, high = interval(gains, 1 - 0.05 / n_comparisons)
    return bool(low > 0 or high < 0)


def fresh_studies(n: int, margin: float, n_comparisons: int) -> list[list[float]]:
    """The second studies of those who follow the advice: as many fresh seeds as it asks for."""
    rng = np.random.default_rng(277)
    asked = [
        n_seeds for _, _, n_seeds in first_studies(n, margin, n_comparisons) if n_seeds is not None
    ]
    return [rng.normal(size=n_seeds).tolist() for n_seeds in asked]


def with_old_seeds(n: int, margin: float, n_comparisons: int) -> list[bool]:
    """Is something false said by those who keep the old seeds, and judge them once more with
    the new ones?
    """
    rng, false = np.random.default_rng(281), []
    for gains, word, n_seeds in first_studies(n, margin, n_comparisons):
        if n_seeds is None:
            false.append(word in FALSE)
        else:
            new = rng.normal(size=max(1, n_seeds - n)).tolist()
            false.append(is_false([*gains, *new], n_comparisons))
    return false


@pytest.mark.parametrize(("n", "margin", "n_comparisons"), [(5, 1.0, 1), (10, 0.6, 3)])
def test_the_second_study_judged_alone_keeps_false_words_few(
    n: int, margin: float, n_comparisons: int
) -> None:
    fresh = fresh_studies(n, margin, n_comparisons)
    false = [is_false(gains, n_comparisons) for gains in fresh]
    assert len(false) > 500
    assert np.mean(false) <= 0.064
    for gains in fresh[:60]:
        few = gains[:20]  # turning signs of many is slow, and decides nothing
        assert (
            compare(few, Criterion(n_comparisons=n_comparisons)).verdict.word in FALSE
        ) == is_false(few, n_comparisons)


def test_keeping_the_old_seeds_would_say_something_false_too_often() -> None:
    """What the advice protects from: the first seeds judged once alone and once more with the
    new ones.
    """
    false = with_old_seeds(5, 1.0, 1)
    assert np.mean(false) > 0.064
