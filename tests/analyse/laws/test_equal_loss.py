"""Compute multipliers between arms, and where they cross."""

from math import exp, log

import numpy as np
import pytest
from numpy.typing import NDArray
from planted_laws import (
    PARAMETERS,
    SEED_NOISE,
    TOKENS,
    one_arm,
    planted_laws,
    planted_runs,
    relative_variances,
    steeper,
)

from paribus.analyse.laws.equal_loss import (
    EqualLoss,
    compute_path,
    equal_loss_curve,
    find_crossing,
)
from paribus.analyse.laws.fit import ScalingLaw, fit_arms
from paribus.errors import SpecError

LAW = np.array(
    [1.7, np.log(1.2) + 0.34 * np.log(2e6), np.log(1.1) + 0.37 * np.log(2e7), 0.34, 0.37]
)


def path_of(arm, flops=6.0):
    rungs = []
    for parameters, durations in zip(PARAMETERS[arm], TOKENS, strict=True):
        rungs.append((flops * parameters * durations[1], parameters, durations[1]))
    return compute_path(rungs)


def curve_of(law, other, flops=(6.0, 6.0), noise=1e-7, seed=1):
    arms = [one_arm(seed, law, "causal", noise), one_arm(seed + 1, other, "prefix", noise)]
    paths = path_of("causal", flops[0]), path_of("prefix", flops[1])
    return equal_loss_curve(fit_arms(arms), (0, 1), paths), paths


def test_an_arm_with_the_same_law_at_twice_the_price_is_worth_half():
    for point in curve_of(LAW, LAW, flops=(12.0, 6.0))[0][1:-1]:
        assert point.factor == pytest.approx(0.5, rel=1e-3)


def test_the_factor_is_the_compute_at_which_the_losses_are_equal():
    other = LAW + np.array([0, 0.05, -0.1, 0, 0])
    curve, (own_path, other_path) = curve_of(LAW, other)
    own_law, other_law = ScalingLaw(*LAW), ScalingLaw(*other)
    for point in curve[::8]:
        own_place = own_path.places(np.array([log(point.compute)]))
        reached = other_path.places(np.array([log(point.compute * point.factor)]))
        own_loss = own_law.loss(*(exp(one[0]) for one in own_place))
        assert other_law.loss(*(exp(one[0]) for one in reached)) == pytest.approx(
            own_loss, rel=1e-5
        )


def test_nothing_is_said_beyond_a_factor_of_four():
    curve, (path, _) = curve_of(LAW, LAW)
    last = exp(path.log_compute_R[-1])
    assert curve[-1].compute == pytest.approx(4 * last)
    beyond = [point.compute > last * (1 + 1e-5) for point in curve]
    assert [point.extrapolated for point in curve] == beyond


def test_a_loss_that_the_other_arm_reaches_too_late_has_no_factor():
    curve, _ = curve_of(LAW, LAW + np.array([0, 0.5, 0.5, 0, 0]))
    assert curve[-1].factor is None
    assert curve[-1].extrapolated


def test_arms_that_cross_within_the_data_are_seen_to():
    other = steeper(LAW[None], alpha=0.12)[0]
    curve, (path, _) = curve_of(LAW, other, noise=0.0005)
    crossing = find_crossing(curve)
    assert not crossing.extrapolated
    assert crossing.is_shown
    assert crossing.words == "the arms cross within the data"
    assert crossing.low < crossing.compute < crossing.high
    assert path.log_compute_R[0] < log(crossing.compute) < path.log_compute_R[-1]


def test_no_crossing_within_the_data_is_an_answer():
    crossing = find_crossing(curve_of(LAW, LAW + np.array([0, 0.1, 0.1, 0, 0]))[0])
    assert crossing.compute is None
    assert crossing.words == "no crossing within the data"


def points(*factors, extrapolated=(), width=0.1):
    return [
        EqualLoss(
            compute=10.0**place,
            factor=factor,
            low=factor * (1 - width),
            high=factor * (1 + width),
            extrapolated=place in extrapolated,
        )
        for place, factor in enumerate(factors)
    ]


def test_a_crossing_beyond_the_data_is_marked():
    crossing = find_crossing(points(0.5, 0.7, 1.4, extrapolated=(2,)))
    assert crossing.extrapolated
    assert 10 < crossing.compute < 100
    assert crossing.words == "no crossing within the data; the laws cross beyond them"


def test_a_crossing_inside_the_band_is_not_shown():
    crossing = find_crossing(points(0.95, 0.98, 1.05))
    assert not crossing.is_shown
    assert (crossing.low, crossing.high) == (None, None)
    assert "the band holds 1" in crossing.words


def test_a_crossing_is_read_between_two_places_by_hand():
    # ln 0.5 and ln 2 are as far from 0: half-way in ln compute
    crossing = find_crossing(points(0.5, 2.0))
    assert crossing.compute == pytest.approx(10**0.5)
    assert (crossing.low, crossing.high) == (1.0, 10.0)


def multiplier_coverage(
    n_pairs: int, noise: float | NDArray[np.float64] = SEED_NOISE
) -> dict[bool, float]:
    """How often the band of a prefix decoder against a decoder holds the planted multiplier, in per
    cent: at places among the data (False) and at extrapolated ones (True). Their α differ by up to
    0.05; other arms are there to say how noisy each rung is.
    """
    rng = np.random.default_rng(3)
    laws = planted_laws(rng, n_pairs)
    more = rng.uniform(-0.05, 0.05, n_pairs)
    others = np.concatenate([steeper(law[None], one) for law, one in zip(laws, more, strict=True)])
    pair = [planted_runs(rng, laws, "causal", noise), planted_runs(rng, others, "prefix", noise)]
    beside = [planted_runs(rng, laws, arm, noise) for arm in list(PARAMETERS)[2:]]
    relative_PC = relative_variances([*pair, *beside])
    paths = path_of("causal"), path_of("prefix")
    inside: dict[bool, list[bool]] = {False: [], True: []}
    for number, law in enumerate(laws):
        fit = fit_arms([one.problem(number, relative_PC[number]) for one in pair])
        truth, _ = curve_of(law, others[number])
        for real, found in zip(truth, equal_loss_curve(fit, (0, 1), paths), strict=True):
            if real.factor is None or found.factor is None:
                continue
            assert found.low is not None
            assert found.high is not None
            inside[found.extrapolated].append(found.low <= real.factor <= found.high)
    return {extrapolated: 100 * float(np.mean(held)) for extrapolated, held in inside.items()}


def test_the_band_covers_planted_multipliers():
    covered = multiplier_coverage(16)
    assert min(covered.values()) > 84


@pytest.mark.parametrize(
    ("rungs", "words"),
    [
        ([(1.0, 1.0, 1.0)], "rungs of a path: 1 given; use 2 or more"),
        ([(1.0, 1.0, 1.0), (0.0, 1.0, 1.0)], "is not above 0; use numbers above 0"),
        ([(1.0, 1.0, 1.0), (1.0, 2.0, 2.0)], "two have the same compute; use one for each size"),
    ],
)
def test_a_path_that_does_not_rise_is_refused(rungs, words):
    with pytest.raises(SpecError, match=words):
        compute_path(rungs)
