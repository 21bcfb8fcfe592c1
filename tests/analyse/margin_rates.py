"""How often arms that differ by exactly the margin in compute are called equal: `python tests/analyse/margin_rates.py`.

The arm that others are judged against is trained at 0.25, 0.5 and 1 of its length in every seed. Its slopes vary over
seeds with a coefficient of variation `cv`, and may be correlated with the gains. The noise of its run at full length is
in the gain and in the slope, as it is in a study.
"""

import numpy as np
from numpy.typing import NDArray

from paribus.analyse import end_slopes, interval

N_DRAWS = 4000
SHARES = np.array([0.25, 0.5, 1.0])
MORE = 0.1  # compute, of the margin
SLOPE = 0.15  # bits per byte for each e-fold at full length, as in the studies that are kept
NOISE = 0.0035  # of one run, so that the margin is about three spreads of a gain
VARIATIONS = (0.0, 0.1, 0.2, 0.5)
CORRELATIONS = (-0.7, 0.0, 0.7)
POWERS = (0.2, 0.35, 0.5)

Array = NDArray[np.float64]


def draws(n: int, cv: float, rho: float, power: float | None, truth: float = 1.0) -> tuple[Array, Array]:
    """Gains and margins by seed, 4,000 studies of n seeds; the true gain is `truth` times the true mean margin.

    A law is straight in ln tokens, or a power law with this exponent.
    """
    rng = np.random.default_rng(53)
    shape = (N_DRAWS, n)
    vary = rng.normal(size=shape)
    steep = SLOPE * (1 + cv * vary)
    runs = NOISE * rng.normal(size=(*shape, 3))
    losses = steep[..., None] * _fall(power) + runs
    other = np.sqrt(1 - rho**2) * NOISE * rng.normal(size=shape) + rho * NOISE * vary
    gains = truth * SLOPE * _worth(power) + runs[..., -1] + other
    slopes = end_slopes(np.log(SHARES), losses, lower_is_better=True)
    return gains, np.log(1 + MORE) * slopes


def _fall(power: float | None) -> Array:
    """The loss at each length, for a slope of 1 at full length."""
    return -np.log(SHARES) if power is None else SHARES**-power / power


def _worth(power: float | None) -> float:
    """What so much more compute buys, for a slope of 1 at full length."""
    return float(np.log(1 + MORE)) if power is None else (1 - (1 + MORE) ** -power) / power


def share_within(gains: Array, margins: Array) -> float:
    """In how many of 100 studies both tests, on gain − margin and gain + margin, reject."""
    _, high = interval(gains - margins, 0.9)
    low, _ = interval(gains + margins, 0.9)
    return 100 * float(np.mean((np.asarray(high) < 0) & (np.asarray(low) > 0)))


def share_within_mean(gains: Array, margins: Array) -> float:
    """The same as if the mean margin were known, as the first edition had it."""
    low, high = interval(gains, 0.9)
    known = margins.mean(axis=-1)
    return 100 * float(np.mean((np.asarray(high) < known) & (np.asarray(low) > -known)))


def main() -> None:
    print("| law | n | cv 0 | .1 | .2 | .5 | mean taken as known, cv .5 |")
    print("|---|---|---|---|---|---|---|")
    for power in (None, *POWERS):
        for n in (5, 10):
            rows = [[share_within(*draws(n, cv, rho, power)) for rho in CORRELATIONS] for cv in VARIATIONS]
            known = max(share_within_mean(*draws(n, 0.5, rho, power)) for rho in CORRELATIONS)
            cells = " | ".join(f"{min(row):.1f}–{max(row):.1f}" for row in rows)
            law = "straight" if power is None else f"power {power:g}"
            print(f"| {law} | {n} | {cells} | {known:.1f} |")


if __name__ == "__main__":
    main()
