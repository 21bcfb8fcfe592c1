import numpy as np
import pytest
from scipy import stats

from paribus.analyse import pairing
from paribus.errors import SpecError


def test_pairing_is_described_by_its_variance_ratio_and_correlation() -> None:
    rng = np.random.default_rng(73)
    block = rng.normal(size=9)
    a, b = block + 0.3 * rng.normal(size=(2, 9))
    found = pairing(a.tolist(), b.tolist())
    assert found is not None
    assert found.variance_ratio == pytest.approx(
        np.var(b - a, ddof=1) / (np.var(a, ddof=1) + np.var(b, ddof=1))
    )
    expected = stats.pearsonr(a, b)
    assert found.rho == pytest.approx(expected[0])
    assert (found.low, found.high) == pytest.approx(expected.confidence_interval(0.95))


def test_four_seeds_and_constant_arms_are_not_described() -> None:
    assert pairing([1, 2, 3, 4], [2, 1, 4, 3]) is None
    assert pairing([1, 1, 1, 1, 1], [2, 1, 4, 3, 5]) is None


def test_arms_that_move_as_one_have_a_correlation_of_one() -> None:
    found = pairing([1, 2, 3, 4, 5], [2, 3, 4, 5, 6])
    assert found is not None
    assert (found.variance_ratio, found.rho) == (0, pytest.approx(1))


def test_both_arms_have_the_same_seeds() -> None:
    with pytest.raises(
        SpecError, match="pairing: 5 seeds against 4; give the same seeds, in the same order"
    ):
        pairing([1, 2, 3, 4, 5], [1, 2, 3, 4])
