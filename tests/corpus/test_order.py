from collections import Counter

import numpy as np
import pytest

from paribus.corpus.order import SourceMixture, shuffled_indices


@pytest.mark.parametrize("n", [1, 2, 3, 7, 257, 1024, 1025, 1031, 65536, 65537])
def test_a_shuffle_holds_every_place_once(n):
    assert np.array_equal(np.sort(shuffled_indices(np.arange(n), n, 17)), np.arange(n))


def test_a_shuffle_can_be_entered_anywhere():
    whole = shuffled_indices(np.arange(4001), 4001, 5)
    assert shuffled_indices(np.array([700]), 4001, 5)[0] == whole[700]
    assert np.array_equal(
        shuffled_indices(np.array([[3, 1], [4, 1]]), 4001, 5), whole[np.array([[3, 1], [4, 1]])]
    )


def test_all_orders_of_three_are_about_equally_frequent():
    seen = Counter(
        tuple(shuffled_indices(np.arange(3), 3, key).tolist()) for key in range(0, 6000 * 977, 977)
    )
    assert len(seen) == 6
    assert max(abs(count - 1000) for count in seen.values()) < 150


def test_shuffles_do_not_change_between_versions():
    assert shuffled_indices(np.arange(7), 7, 1).tolist() == [0, 5, 4, 1, 2, 6, 3]
    assert shuffled_indices(np.array([0, 10**9]), 10**10, 2**62 + 1).tolist() == [
        7687054976,
        4541375690,
    ]


@pytest.mark.parametrize("weights", [[1], [1, 1], [1, 2, 3.5], [0.001, 0.999], [3, 1e-7]])
def test_counts_before_a_row_are_those_of_the_rows_themselves(weights):
    mixture = SourceMixture(weights, 12345)
    sources = mixture.row_sources(0, 3001)
    for row in (0, 1, 2, 17, 999, 3001):
        counted = np.bincount(sources[:row], minlength=len(weights)).tolist()
        assert mixture.rows_before(row) == counted


def test_rows_of_a_mixture_can_be_entered_anywhere():
    mixture = SourceMixture([2, 1, 5], 7)
    assert np.array_equal(mixture.row_sources(10**12 + 3, 50), mixture.row_sources(10**12, 53)[3:])
    after = np.array(mixture.rows_before(10**12 + 50)) - mixture.rows_before(10**12)
    assert np.array_equal(np.bincount(mixture.row_sources(10**12, 50), minlength=3), after)


def test_every_stretch_holds_the_sources_in_their_shares():
    weights = np.array([1, 2, 3.5])
    mixture = SourceMixture(weights.tolist(), 99)
    for first in (0, 12345, 10**9):
        for n_rows in (13, 650, 10**6):
            counts = np.array(mixture.rows_before(first + n_rows)) - mixture.rows_before(first)
            assert counts.sum() == n_rows
            assert np.abs(counts - n_rows * weights / weights.sum()).max() < 6


def test_another_seed_gives_another_order_of_sources():
    assert not np.array_equal(
        SourceMixture([1, 1], 1).row_sources(0, 50),
        SourceMixture([1, 1], 2**31 + 5).row_sources(0, 50),
    )
