"""Words of many planted ladders at once are those of each, and larger exponents get theirs."""

import numpy as np
import pytest
from planted_laws import relative_variances
from planted_words import (
    Misses,
    fit_ladder,
    flips,
    planted_ladder,
    planted_verdicts,
    says_larger,
    says_larger_with_one_floor,
)

from paribus.analyse.laws.exponents import ExponentVerdict, compare_exponents

PAIR = [("prefix", "causal")]
N_TESTS = 2  # α and β of one pair


def test_words_of_many_ladders_are_those_of_each():
    runs = planted_ladder(2, Misses(own=0.002), alpha=0.1, beta=0.05)
    fits, relative_PC = fit_ladder(runs), relative_variances(runs)
    found = [planted_verdicts(fits, exponent, N_TESTS) for exponent in ("alpha", "beta")]
    for number, together in enumerate(zip(*found, strict=True)):
        cells = {one.cells.arm: one.problem(number, relative_PC[number]) for one in runs}
        for one, alone in zip(together, compare_exponents(cells, PAIR), strict=True):
            assert (one.exponent, one.n_tests) == (alone.exponent, alone.n_tests)
            assert (one.word, one.one_floor_word) == (alone.word, alone.one_floor_word)
            for own, other in (
                (one.one_floor, alone.one_floor),
                (one.own_floors, alone.own_floors),
            ):
                assert own.p == pytest.approx(other.p, rel=1e-3)
                assert own.inner_low == pytest.approx(other.inner_low, abs=1e-4)
                assert own.inner_high == pytest.approx(other.inner_high, abs=1e-4)


def share(said: list[bool]) -> float:
    return 100 * float(np.mean(said))


def verdicts_of(
    exponent: str, n_tests: int, n_laws: int, alpha: float = 0.0, floor: float = 0.0
) -> list[ExponentVerdict]:
    fits = fit_ladder(planted_ladder(n_laws, Misses(), alpha, alpha, floor))
    return planted_verdicts(fits, exponent, n_tests)


@pytest.mark.slow
def test_exponents_that_differ_by_the_margin_get_their_word_more_often_with_one_floor():
    verdicts = verdicts_of("alpha", 10, 200, alpha=0.05)
    with_one, said = (
        share([says(one) for one in verdicts]) for says in (says_larger_with_one_floor, says_larger)
    )
    assert with_one > 85
    assert 20 < said < 50


@pytest.mark.slow
def test_a_higher_floor_gives_no_word_in_both_fits_and_many_in_one():
    verdicts = verdicts_of("alpha", 20, 200, floor=0.2)
    kept = [says_larger_with_one_floor(one) and not flips(one) for one in verdicts]
    assert share([says_larger_with_one_floor(one) for one in verdicts]) > 60
    assert 20 < share(kept) < 50
    assert share([says_larger(one) for one in verdicts]) < 2
