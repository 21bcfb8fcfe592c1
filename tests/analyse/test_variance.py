"""Components of variance: by hand, on average, and what is told where runs are missing."""

import numpy as np
import pytest

from paribus.analyse.variance import noise_sources, rerun_noise, variance_components
from paribus.errors import SpecError

# Row means 1.5, 4, 5 and column means 3, 4 of a mean of 3.5; squares: start 6.5, order 1.5, rest
# 0.5.
TABLE = [[1.0, 2.0], [3.0, 5.0], [5.0, 5.0]]


def test_components_by_hand() -> None:
    start, order, rest = variance_components(TABLE)
    assert (start.name, order.name, rest.name) == ("start", "order", "rest")
    assert (start.variance, order.variance, rest.variance) == pytest.approx((3.0, 1 / 3, 0.5))
    assert (start.df, order.df, rest.df) == (2, 1, 2)
    assert start.p == pytest.approx(1 / 14)  # F of 13 with 2 and 2 degrees of freedom
    assert order.p == pytest.approx(0.2254033)  # F of 3 with 1 and 2
    assert rest.p is None
    assert start.sd == pytest.approx(3**0.5)


def test_an_estimate_below_zero_is_kept_and_its_deviation_is_zero() -> None:
    start, *_ = variance_components([[1.0, 2.0], [2.0, 1.0]])
    assert start.variance == pytest.approx(-0.5)
    assert start.sd == 0.0


def test_components_are_right_on_average() -> None:
    draw = np.random.default_rng(1)
    found = []
    for _ in range(4000):
        table = (
            2 * draw.normal(size=(3, 1))
            + 1 * draw.normal(size=(1, 3))
            + 0.5 * draw.normal(size=(3, 3))
        )
        found.append([one.variance for one in variance_components(table.tolist())])
    error = np.std(found, axis=0) / 4000**0.5
    assert (np.abs(np.mean(found, axis=0) - [4.0, 1.0, 0.25]) < 4 * error).all()


def test_a_table_that_is_none_is_refused() -> None:
    with pytest.raises(
        SpecError, match=r"the table is \(1, 3\); give two or more starts and two or more orders"
    ):
        variance_components([[1.0, 2.0, 3.0]])


def test_the_noise_of_one_run_made_again() -> None:
    again = rerun_noise([1.0, 2.0, 3.0])
    assert again is not None
    assert (again.variance, again.df) == (1.0, 2)
    assert rerun_noise([1.0]) is None


def scores(table: list[list[float]]) -> dict[tuple[int, int, int], float | None]:
    return {
        (i + 1, 10_001 + j, 0): score for i, row in enumerate(table) for j, score in enumerate(row)
    }


def test_sources_are_those_of_the_table_and_of_the_first_run_again() -> None:
    found = noise_sources("causal", {**scores(TABLE), (1, 10_001, 1): 1.0, (1, 10_001, 2): 1.0})
    assert found is not None
    assert found.components == variance_components(TABLE)
    assert (found.n_inits, found.n_orders, found.is_reproducible) == (3, 2, True)
    other = noise_sources("causal", {**scores(TABLE), (1, 10_001, 1): 1.5})
    assert other is not None
    assert other.is_reproducible is False


def test_reruns_alone_are_no_table() -> None:
    found = noise_sources("causal", {(1, 10_001, 0): 1.0, (1, 10_001, 1): 2.0, (1, 10_001, 2): 3.0})
    assert found is not None
    assert found.components == ()
    assert found.rerun is not None
    assert found.rerun.sd == 1.0


def test_a_run_that_failed_leaves_no_components() -> None:
    found = noise_sources("causal", {**scores(TABLE), (1, 10_001, 1): None})
    assert found is not None
    assert (found.components, found.rerun, found.is_reproducible) == ((), None, None)
    assert found.why == "a run of them did not train"
    assert noise_sources("causal", {}) is None
