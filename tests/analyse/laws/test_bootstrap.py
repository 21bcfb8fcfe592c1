"""The wild bootstrap of whole cells."""

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_laws import (
    NOISES,
    PARAMETERS,
    one_arm,
    planted_laws,
    planted_runs,
    relative_variances,
)

from paribus.analyse.laws.bootstrap import bootstrap_intervals, bootstrap_parameters
from paribus.analyse.laws.fit import fit_arm, fit_arms, law_intervals
from paribus.analyse.laws.profile import QUANTITIES, quantity


def test_the_same_seed_gives_the_same_draws():
    fit = fit_arm(one_arm(1, planted_laws(np.random.default_rng(1), 1)[0]))
    first, again = (bootstrap_parameters(fit, seed=5, n_draws=20) for _ in range(2))
    assert (first == again).all()
    assert (first != bootstrap_parameters(fit, seed=6, n_draws=20)).any()


def test_arms_at_one_rung_are_redrawn_together():
    cells = one_arm(1, planted_laws(np.random.default_rng(1), 1)[0])
    fit = fit_arms([cells, cells], shared_floor=False)
    draws = bootstrap_parameters(fit, seed=5, n_draws=50)
    own, other = (draws @ quantity(fit.model, "alpha", arm).weights_Q for arm in (0, 1))
    assert own.std() > 1e-3
    assert own == pytest.approx(other, abs=1e-4)


def test_the_two_intervals_are_alike():
    fit = fit_arm(one_arm(3, planted_laws(np.random.default_rng(3), 1)[0], cells_off=0.005))
    profile = law_intervals(fit)
    redrawn = bootstrap_intervals(fit, bootstrap_parameters(fit, seed=1))
    for name in QUANTITIES:
        assert redrawn[name].low < profile[name].estimate < redrawn[name].high
        ratio = (redrawn[name].high - redrawn[name].low) / (profile[name].high - profile[name].low)
        assert 0.5 < ratio < 2


def bootstrap_coverage(
    noise: float | NDArray[np.float64], cells_off: float, n_laws: int = 200
) -> dict[str, float]:
    """How often the bootstrap of a decoder holds its law, in per cent; the other arms are there to
    say how noisy each rung is.
    """
    rng = np.random.default_rng(7)
    laws = planted_laws(rng, n_laws)
    arms = [planted_runs(rng, laws, arm, noise, cells_off) for arm in PARAMETERS]
    relative_PC = relative_variances(arms)
    covered = dict.fromkeys(QUANTITIES, 0)
    for number, law in enumerate(laws):
        fit = fit_arm(arms[0].problem(number, relative_PC[number]))
        found = bootstrap_intervals(fit, bootstrap_parameters(fit, seed=number))
        for name, value in zip(QUANTITIES, law, strict=True):
            covered[name] += found[name].low <= value <= found[name].high
    return {name: 100 * float(count) / n_laws for name, count in covered.items()}


@pytest.mark.slow
@pytest.mark.parametrize("cells_off", [0.0, 0.005])
@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_the_bootstrap_covers_planted_laws(noise, cells_off):
    covered = bootstrap_coverage(noise, cells_off)
    assert min(covered.values()) >= 90.5, covered
