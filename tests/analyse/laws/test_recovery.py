"""Planted laws are recovered on the ladder's design with the seed noise of kept studies."""

from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest
from kept_studies import RESULTS, rows_of
from numpy.typing import NDArray
from planted_laws import (
    NOISES,
    PARAMETERS,
    RUNG_NOISE,
    SEED_NOISE,
    arms_with_one_floor,
    fit_planted,
    interval_coverage,
    planted_laws,
    planted_runs,
    steeper,
)

from paribus.analyse.laws.fit import effective_df, fit_arm, law_intervals
from paribus.analyse.laws.profile import (
    QUANTITIES,
    difference,
    profile_p,
)

MANY = pytest.param(2000, marks=pytest.mark.slow)
# Of the arms of encoder-decoder-hour; it has no prefix decoder, which gets that of the decoder.
MEASURED_NOISE = (0.00225, 0.00225, 0.00087, 0.00099, 0.0037)


def tolerance(share: float, n: int) -> float:
    """Three standard errors of a share, in per cent; none where the band itself must hold."""
    if n >= 2000:
        return 0.0
    return 300 * float(np.sqrt(share * (1 - share) / n))


def coverage(
    n_laws: int, noise: float | NDArray[np.float64], cells_off: float, seed: int = 1
) -> dict[str, float]:
    """How often the intervals of a decoder hold its law, in per cent; the other arms are there to
    say how noisy each rung is.
    """
    rng = np.random.default_rng(seed)
    laws = planted_laws(rng, n_laws)
    own, *others = [planted_runs(rng, laws, arm, noise, cells_off) for arm in PARAMETERS]
    return interval_coverage(fit_planted([own], beside=others), laws)


def test_the_noise_is_that_of_kept_runs():
    logs: dict[str, list[float]] = {}
    for row in rows_of(RESULTS / "encoder-decoder-hour" / "rows.csv"):
        if row["purpose"] == "reported":
            logs.setdefault(row["arm"], []).append(float(np.log(float(row["halves.test"]))))
    sds = [float(np.std(values, ddof=1)) for values in logs.values()]
    assert median(sds) == pytest.approx(0.0023, rel=0.05)
    assert median(sds) < SEED_NOISE
    assert min(sds) == pytest.approx(min(MEASURED_NOISE), rel=0.1)
    assert max(sds) == pytest.approx(max(MEASURED_NOISE), rel=0.1)


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("n_laws", [400, MANY])
def test_profile_intervals_cover_planted_laws(n_laws, noise):
    covered = coverage(n_laws, noise, cells_off=0.0)
    slack = tolerance(0.95, n_laws)
    for name in ("lnA", "lnB", "alpha", "beta"):
        assert 93 - slack <= covered[name] <= 97 + slack, covered
    assert 90 - slack <= covered["E"] <= 98 + slack


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("n_laws", [200, MANY])
def test_intervals_cover_where_cells_lie_off_their_law(n_laws, noise):
    covered = coverage(n_laws, noise, cells_off=0.005)
    assert min(covered.values()) >= 90 - tolerance(0.95, n_laws), covered


def joint_coverage(
    n_laws: int, noise: float | NDArray[np.float64], cells_off: float = 0.0
) -> dict[str, float]:
    """How often the intervals of a decoder hold its law where five arms, each with a law of its
    own, are fitted with the E that they have in common, in per cent.
    """
    laws, runs = arms_with_one_floor(n_laws, noise, cells_off)
    return interval_coverage(fit_planted(runs), laws)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_intervals_of_arms_with_one_floor_cover_planted_laws(noise):
    covered = joint_coverage(2000, noise)
    for name in ("lnA", "lnB", "alpha", "beta"):
        assert 93 <= covered[name] <= 97, covered
    assert 90 <= covered["E"] <= 98, covered


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
@pytest.mark.parametrize("n_laws", [60, MANY])
def test_intervals_of_arms_with_one_floor_cover_where_cells_lie_off_their_laws(n_laws, noise):
    covered = joint_coverage(n_laws, noise, cells_off=0.005)
    assert min(covered.values()) >= 90 - tolerance(0.95, n_laws), covered


def rejections(
    n_laws: int, noise: Sequence[float | NDArray[np.float64]], alpha: float = 0.0
) -> dict[str, float]:
    """How often equal exponents of two arms of five are rejected at 5 %."""
    rng = np.random.default_rng(3)
    laws = planted_laws(rng, n_laws)
    runs = []
    for number, (arm, own_noise) in enumerate(zip(PARAMETERS, noise, strict=True)):
        own = steeper(laws, alpha) if number == 1 else laws
        moved = rng.uniform(-0.1, 0.1, size=(n_laws, 2))
        own = own + np.column_stack([np.zeros(n_laws), moved, np.zeros((n_laws, 2))])
        runs.append(planted_runs(rng, own, arm, noise=own_noise))
    fit = fit_planted(runs)
    rejected: dict[str, float] = {}
    for name in ("alpha", "beta"):
        functional = difference(fit.model, name, 1, 0)
        df = effective_df(fit, functional.weights_Q[None])
        p = profile_p(fit.data, fit.best, functional, 0.0, df)
        rejected[name] = 100 * float((p < 0.05).mean())
    return rejected


@pytest.mark.parametrize("n_laws", [200, MANY])
def test_equal_exponents_are_seldom_rejected_but_sometimes(n_laws):
    slack = tolerance(0.05, n_laws)
    for share in rejections(n_laws, (SEED_NOISE,) * 5).values():
        assert 3.5 - slack <= share <= 6.5 + slack


@pytest.mark.slow
def test_equal_exponents_are_seldom_rejected_where_noise_differs_between_rungs():
    for share in rejections(2000, (RUNG_NOISE,) * 5).values():
        assert 3.5 <= share <= 6.5


@pytest.mark.slow
def test_arms_as_noisy_as_the_measured_ones_are_not_called_different():
    for share in rejections(2000, MEASURED_NOISE).values():
        assert 3.5 <= share <= 6.5


def test_degrees_of_freedom_come_from_the_arms_that_are_compared():
    rng = np.random.default_rng(5)
    laws = planted_laws(rng, 1)
    runs = [planted_runs(rng, laws, arm) for arm in ("causal", "prefix", "3+3")]
    runs.append(planted_runs(rng, laws, "2P", cells_off=0.02))
    fit = fit_planted(runs, pools_misfit=False)
    assert [int(noise.df[0]) for noise in fit.noises] == [26, 26, 26, 8]
    near, far = (
        effective_df(fit, difference(fit.model, "alpha", 0, other).weights_Q[None])[0]
        for other in (1, 3)
    )
    assert 26 < near <= 52
    assert 8 < far < 12


def test_a_larger_exponent_is_seen():
    found = rejections(100, (SEED_NOISE,) * 5, alpha=0.05)
    assert found["alpha"] > 85
    assert found["beta"] < 15


def test_a_floor_that_noise_hides_is_not_bounded_below():
    rng = np.random.default_rng(11)
    law = planted_laws(rng, 1)
    law[0, 0] = 0.02
    estimates = law_intervals(fit_arm(planted_runs(rng, law, noise=0.03).problem(0)))
    assert estimates["E"].low == 0
    assert estimates["E"].high > 0.02


def test_a_wider_level_gives_a_wider_interval():
    rng = np.random.default_rng(13)
    fit = fit_arm(planted_runs(rng, planted_laws(rng, 1)).problem(0))
    narrow, wide = law_intervals(fit, level=0.9), law_intervals(fit, level=0.99)
    for name in QUANTITIES:
        assert wide[name].low < narrow[name].low < narrow[name].estimate
        assert narrow[name].estimate < narrow[name].high < wide[name].high
