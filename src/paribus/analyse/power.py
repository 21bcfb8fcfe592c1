"""What a number of seeds can see; effects in units of sd_d, the spread of paired differences
over seeds.
"""

from collections.abc import Callable
from functools import lru_cache
from math import inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.special import chdtri, gammaln, ndtr

from paribus.analyse.interval import MIN_SEEDS, critical_t, require_min_seeds
from paribus.errors import SpecError

MAX_SEEDS = 60  # advice beyond this is no advice
USUAL_POWER = 0.8
MIXTURE_VARIANCE = 4.0  # effects of about 2 sd_d are what an open-ended comparison looks for

# of the sum over spreads, and how far it goes from 1, in 1/√df
N_QUADRATURE_NODES, MAX_SPREADS = (
    96,
    9.0,
)
TABLE_SEED_COUNTS = (3, 5, 8, 10, 20)  # in a table of what seeds can see


class PowerRow(NamedTuple):
    """What n seeds see: the smallest effect, and the smallest margin that calls a true zero
    equivalent; in sd_d.
    """

    n: int
    effect: float
    margin: float


def power(effect: float, n: int, alpha: float = 0.05) -> float:
    """The chance that n seeds show an effect: P(F > t²₁₋α/₂,ₙ₋₁), F noncentral with 1, n − 1 df
    and nδ².
    """
    require_min_seeds(n)
    return _power(effect, n, float(critical_t(1 - alpha, n - 1)), n - 1)


def one_sided_power(
    effect: float, n: int, alpha: float = 0.05, *, open_ended: bool = False
) -> float:
    """The chance that n seeds show that an effect is above zero: that of a two-sided test at 2α,
    whose other side no effect of any size reaches.
    """
    require_min_seeds(n)
    t = one_sided_t(n, alpha, open_ended=open_ended)
    if t == inf:
        return 0.0
    return _power(effect, n, t, n - 1)


def one_sided_t(n: int, alpha: float = 0.05, *, open_ended: bool = False) -> float:
    """The t above which n seeds show that an effect is above zero."""
    if open_ended:
        return always_valid_t(n, alpha)
    return float(critical_t(1 - 2 * alpha, n - 1))


def detectable_effect(
    n: int,
    m: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
    *,
    open_ended: bool = False,
    n_arms: int = 2,
) -> float:
    """The effect that n seeds show with the given power, as one of m comparisons.

    Open-ended, at n alone: it may be seen earlier. It is infinite where no effect can be seen.
    Where `n_arms` share one noise, there are (n − 1)(n_arms − 1) df.
    """
    require_min_seeds(n)
    return _detectable(n, alpha / m, power, open_ended, n_arms)


def equivalence_margin(
    n: int,
    m: int = 1,
    power: float = 0.8,
    alpha: float = 0.05,
    *,
    open_ended: bool = False,
    n_arms: int = 2,
) -> float:
    """The margin within which n seeds find arms that do not differ `equivalent`, with the given
    power.
    """
    require_min_seeds(n)
    df = (n - 1) * (n_arms - 1)
    if open_ended:
        t = always_valid_t(n, alpha / m)
    else:
        t = float(critical_t(1 - 2 * alpha / m, df))
    if t == inf:
        return inf
    return _root_of_rising(lambda margin: _equivalence_power(margin, n, t, df) - power)


def seeds_needed(
    margin: float,
    sd: float,
    n0: int,
    alpha: float = 0.05,
    *,
    limit: int = MAX_SEEDS,
    open_ended: bool = False,
) -> int | None:
    """How many seeds, judged alone, show a difference of `margin` with 80 % power; None beyond
    `limit`.

    The spread is raised by `upper_sd`. The observed effect does not enter: sized by it, a study
    chases its own noise.
    """
    require_min_seeds(n0)
    if not (margin > 0 and sd >= 0):
        raise SpecError(
            f"seeds_for: margin {margin:g}, sd {sd:g}; give a margin above 0 and a spread of 0 or"
            " more"
        )
    effect = margin / upper_sd(sd, n0) if sd else inf
    for n in range(MIN_SEEDS, limit + 1):
        if _detectable(n, alpha, USUAL_POWER, open_ended, 2) <= effect:
            return n
    return None


def upper_sd(sd: float, n: int) -> float:
    """The spread up to which n seeds allow the noise: s·√((n − 1)/χ²₀.₂,ₙ₋₁), which the true
    one exceeds once in five.

    The observed spread itself is too small in 59 % of cases at 5 seeds.
    """
    require_min_seeds(n)
    return sd * sqrt((n - 1) / float(chdtri(n - 1, 0.8)))


def power_table(
    n_own: int, m: int = 1, alpha: float = 0.05, *, open_ended: bool = False
) -> tuple[PowerRow, ...]:
    """What a few numbers of seeds, and a plan's own, see with 80 % power as one of m
    comparisons.
    """
    rows = []
    for n in sorted({*TABLE_SEED_COUNTS, n_own}):
        effect = detectable_effect(n, m, alpha=alpha, open_ended=open_ended)
        margin = equivalence_margin(n, m, alpha=alpha, open_ended=open_ended)
        rows.append(PowerRow(n, effect, margin))
    return tuple(rows)


@lru_cache(maxsize=4096)
def always_valid_t(n: int, alpha: float = 0.05, variance: float = MIXTURE_VARIANCE) -> float:
    """The |t| that, under no effect, is ever exceeded at any number of seeds with chance at
    most alpha.

    Where `log_likelihood_ratio` reaches ln 1/α. Infinite where n seeds cannot reach it: at α =
    0.05, up to 3 seeds.
    """
    if log1p(n * variance) * (n - 1) / 2 <= -log(alpha):  # the limit of the evidence for t → ∞
        return inf
    return _root_of_rising(lambda t: log_likelihood_ratio(t, n, variance) + log(alpha))


def log_likelihood_ratio(t: float, n: int, variance: float = MIXTURE_VARIANCE) -> float:
    """The log likelihood ratio of t for an effect drawn from N(0, v) sd_d, v the variance,
    against none.

    ratio = (1 + nv)^(−1/2) · [(1 + t²/(n−1)) / (1 + t²/((n−1)(1 + nv)))]^(n/2)

    Under no effect it is a martingale with mean 1, whatever the spread, so it ever reaches 1/α with
    chance at most α.
    """
    square, spread = t * t / (n - 1), 1 + n * variance
    return -log(spread) / 2 + n / 2 * (log1p(square) - log1p(square / spread))


def _power(effect: float, n: int, t: float, df: int) -> float:
    # Not nct, which gives nan for large effects at few seeds; not ncf.sf, which is negative without
    # an effect.
    return 1 - float(scipy.stats.ncf.cdf(t**2, 1, df, n * effect**2))


@lru_cache(maxsize=4096)
def _detectable(n: int, alpha: float, power: float, open_ended: bool, n_arms: int) -> float:
    df = (n - 1) * (n_arms - 1)
    if open_ended:
        t = always_valid_t(n, alpha)
    else:
        t = float(critical_t(1 - alpha, df))
    if t == inf:
        return inf
    return _root_of_rising(lambda effect: _power(effect, n, t, df) - power)


def _equivalence_power(margin: float, n: int, t: float, df: int) -> float:
    """P(|mean| + t·s/√n < Δ) where the truth is 0: over the spread s, the chance of a mean that
    leaves room.
    """
    end = min(sqrt(n) * margin / t, 1 + MAX_SPREADS / sqrt(df))  # beyond it no spread is ever drawn
    if not end:
        return 0.0
    places, weights = _quadrature_nodes()
    spreads = end * (places + 1) / 2
    density = 2 * np.exp(
        df / 2 * log(df / 2) - gammaln(df / 2) + (df - 1) * np.log(spreads) - df * spreads**2 / 2
    )
    room = 2 * ndtr(sqrt(n) * margin - t * spreads) - 1
    return float(end / 2 * (weights * room * density).sum())


@lru_cache(maxsize=1)
def _quadrature_nodes() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return leggauss(N_QUADRATURE_NODES)


def _root_of_rising(rising_function: Callable[[float], float]) -> float:
    """Where a rising function of a positive number passes zero."""
    upper = 1.0
    while rising_function(upper) < 0:
        upper *= 2
    return scipy.optimize.root_scalar(rising_function, bracket=(0, upper), method="brentq").root
