"""T9: the crossed interval, the ratio estimator, and when nothing is said of other text."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from paribus.analyse import crossed_interval, gains_per_count, interval, new_document_finding
from paribus.errors import SpecError

N_ITEMS = 200


def _table(rng: np.random.Generator, n: int, ratio: float) -> NDArray[np.float64]:
    """Seeds add `ratio` times as much to the mean's spread as items do; both add to a noise of
    one item's size.
    """
    seeds = ratio / np.sqrt(N_ITEMS) * rng.normal(size=(n, 1))
    return seeds + rng.normal(size=(1, N_ITEMS)) + rng.normal(size=(n, N_ITEMS))


@pytest.mark.parametrize("n", [3, 5, 10])
@pytest.mark.parametrize("ratio", [0.02, 0.2, 1, 5])
def test_the_crossed_interval_covers_whoever_is_noisier(ratio: float, n: int) -> None:
    rng = np.random.default_rng(53)
    found = [crossed_interval(_table(rng, n, ratio), 0.95) for _ in range(1000)]
    assert 89 <= 100 * np.mean([one.low < 0 < one.high for one in found]) <= 99.5


def test_items_taken_for_seeds_cover_far_less() -> None:
    rng = np.random.default_rng(53)
    means = [_table(rng, 5, 5).mean(axis=0) for _ in range(500)]
    low, high = map(np.asarray, interval(np.array(means), 0.95))
    assert np.mean((low < 0) & (high > 0)) < 0.7


def test_both_variance_components_are_found() -> None:
    rng = np.random.default_rng(59)
    z = 2 * rng.normal(size=(40, 1)) + 3 * rng.normal(size=(1, 400)) + rng.normal(size=(40, 400))
    found = crossed_interval(z)
    assert (found.seed_variance, found.item_variance) == (
        pytest.approx(4, rel=0.6),
        pytest.approx(9, rel=0.2),
    )
    assert found.residual_variance == pytest.approx(1, rel=0.05)
    assert (found.n_seeds, found.n_items, found.effect) == (40, 400, pytest.approx(z.mean()))


def test_a_small_table_by_hand() -> None:
    found = crossed_interval([[1, 3], [2, 4], [6, 8]], 0.9)
    ms_seed, ms_item = 2 * 7, 3 * 2
    assert (found.effect, found.df) == (
        4,
        pytest.approx((14 + 6) ** 2 / (ms_seed**2 / 2 + ms_item**2 / 1)),
    )
    assert found.high - 4 == pytest.approx(
        stats.t.ppf(0.95, found.df) * np.sqrt((ms_seed + ms_item) / 6)
    )
    assert (found.residual_variance, found.seed_variance, found.item_variance) == pytest.approx(
        (0, 7, 2)
    )


def test_tables_that_agree_in_every_place_have_no_width() -> None:
    found = crossed_interval(np.zeros((3, 7)))
    assert (found.effect, found.low, found.high) == (0, 0, 0)


def test_the_ratio_estimator_keeps_every_seeds_bits_per_byte() -> None:
    rng = np.random.default_rng(61)
    size = rng.integers(10, 5000, size=37)
    bits = size * (0.01 + 0.002 * rng.normal(size=(5, 1))) + np.sqrt(size) * rng.normal(
        size=(5, 37)
    )
    z = gains_per_count(bits, size)
    assert z.mean(axis=1) == pytest.approx(bits.sum(axis=1) / size.sum(), rel=1e-12)
    assert crossed_interval(z).effect == pytest.approx(bits.sum() / (5 * size.sum()))


def test_from_ten_documents_new_ones_are_spoken_of_with_both_variances() -> None:
    z = np.random.default_rng(67).normal(1, 0.5, size=(3, 10))
    found = new_document_finding(z, unit="bits per byte")
    assert found.interval == crossed_interval(z)
    assert found.description.startswith("On new documents: gain ")
    assert "3 seeds × 10 documents; variance between seeds" in found.description


def test_nine_documents_say_nothing_of_other_text() -> None:
    found = new_document_finding(np.random.default_rng(67).normal(size=(3, 9)))
    assert found.interval is None
    assert found.description == "no statement about other text: 9 documents, 10 are needed."


def test_tables_must_be_whole() -> None:
    with pytest.raises(
        SpecError, match=r"items: a table of \(2, 9\); give seeds × items, at least 3 × 2"
    ):
        crossed_interval(np.zeros((2, 9)))
    with pytest.raises(SpecError, match="items: 1 of 6 are not numbers; give seeds that trained"):
        crossed_interval([[1, 2], [3, np.nan], [5, 6]])
    with pytest.raises(
        SpecError, match=r"counts: \(3,\) for 2 documents; give each its count of bytes or items"
    ):
        gains_per_count([[1, 2], [3, 4], [5, 6]], [1, 2, 3])
