"""How often arms that differ by exactly the margin in compute are called equal, and how often a
multiplier's interval holds the true one: `python tests/support/margin_simulation.py` prints both
tables.

The arm that others are judged against is trained at 0.25, 0.5 and 1 of its length in every seed.
Its slopes vary over seeds with a coefficient of variation `cv`, and may be correlated with the
gains. The noise of its run at full length is in the gain and in the slope, as it is in a study.
"""

import numpy as np
from measures import LOWER
from numpy.typing import NDArray

from paribus.analyse import LengthCurves, compare, compute_multiplier, end_slopes, interval

N_DRAWS = 4000
SHARES = np.array([0.25, 0.5, 1.0])
MORE = 0.1  # compute, of the margin
SLOPE = 0.15  # bits per byte for each e-fold at full length, as in the studies that are kept
NOISE = 0.0035  # of one run, so that the margin is about three spreads of a gain
VARIATIONS = (0.0, 0.1, 0.2, 0.5)
CORRELATIONS = (-0.7, 0.0, 0.7)
POWERS = (0.2, 0.35, 0.5)
SMALL_NOISE = (
    0.0015  # of one run, the least in the studies that are kept: a bias of the curve would show
)
FACTORS = (0.3, 0.5, 0.8, 0.95, 1.05, 1.15, 1.25)
FULL = 1_000_000  # tokens

Array = NDArray[np.float64]


def draw_gains_and_margins(
    n: int, cv: float, rho: float, power: float | None, truth: float = 1.0
) -> tuple[Array, Array]:
    """Gains and margins by seed, 4,000 studies of n seeds; the true gain is `truth` times the
    true mean margin.

    A law is straight in ln tokens, or a power law with this exponent.
    """
    rng = np.random.default_rng(53)
    shape = (N_DRAWS, n)
    vary = rng.normal(size=shape)
    steep = SLOPE * (1 + cv * vary)
    runs = NOISE * rng.normal(size=(*shape, 3))
    losses = steep[..., None] * _losses_by_length(power) + runs
    other = np.sqrt(1 - rho**2) * NOISE * rng.normal(size=shape) + rho * NOISE * vary
    gains = truth * SLOPE * _compute_worth(power) + runs[..., -1] + other
    slopes = end_slopes(np.log(SHARES), losses, measure=LOWER)
    return gains, np.log(1 + MORE) * slopes


def _losses_by_length(power: float | None) -> Array:
    """The loss at each length, for a slope of 1 at full length."""
    return -np.log(SHARES) if power is None else SHARES**-power / power


def _compute_worth(power: float | None) -> float:
    """What so much more compute buys, for a slope of 1 at full length."""
    return float(np.log(1 + MORE)) if power is None else (1 - (1 + MORE) ** -power) / power


def share_equivalent(gains: Array, margins: Array) -> float:
    """In how many of 100 studies both tests, on gain − margin and gain + margin, reject."""
    _, high = interval(gains - margins, 0.9)
    low, _ = interval(gains + margins, 0.9)
    return 100 * float(np.mean((np.asarray(high) < 0) & (np.asarray(low) > 0)))


def share_equivalent_at_mean(gains: Array, margins: Array) -> float:
    """The same as if the mean margin were known, as the first edition had it."""
    low, high = interval(gains, 0.9)
    known = margins.mean(axis=-1)
    return 100 * float(np.mean((np.asarray(high) < known) & (np.asarray(low) > -known)))


def multiplier_coverage(n: int, power: float, factor: float, n_draws: int = 400) -> float:
    """In how many of 100 studies the interval holds the planted factor of a power law; run and
    seed both vary.
    """
    rng = np.random.default_rng(29)
    made = compare([0.1, 0.2, 0.3])  # of which the level alone is used
    shared = rng.normal(0, 2 * SMALL_NOISE, (n_draws, n, 1))
    losses = (
        1 + SLOPE / power * SHARES**-power + shared + SMALL_NOISE * rng.normal(size=(n_draws, n, 3))
    )
    scores = (
        1
        + SLOPE / power * factor**-power
        + shared[..., 0]
        + SMALL_NOISE * rng.normal(size=(n_draws, n))
    )
    tokens = [round(FULL * share) for share in SHARES]
    held = 0
    for draw in range(n_draws):
        curves = {
            seed: dict(zip(tokens, losses[draw, seed].tolist(), strict=True)) for seed in range(n)
        }
        gains = dict(enumerate((losses[draw, :, -1] - scores[draw]).tolist()))
        found = compute_multiplier(made, gains, LengthCurves(curves, tuple(SHARES)))
        held += (
            found.low is not None and found.high is not None and found.low <= factor <= found.high
        )
    return 100 * held / n_draws


def main() -> None:
    print_false_equivalent()
    print()
    print_coverage()


def print_coverage() -> None:
    print(f"| exponent | n | {' | '.join(f'{factor:g}' for factor in FACTORS)} |")
    print(f"|---|---|{'---|' * len(FACTORS)}")
    for power in POWERS:
        for n in (5, 10):
            cells = [f"{multiplier_coverage(n, power, factor, 1000):.1f}" for factor in FACTORS]
            print(f"| {power:g} | {n} | {' | '.join(cells)} |", flush=True)


def print_false_equivalent() -> None:
    print("| law | n | cv 0 | .1 | .2 | .5 | mean taken as known, cv .5 |")
    print("|---|---|---|---|---|---|---|")
    for power in (None, *POWERS):
        for n in (5, 10):
            rows = [
                [
                    share_equivalent(*draw_gains_and_margins(n, cv, rho, power))
                    for rho in CORRELATIONS
                ]
                for cv in VARIATIONS
            ]
            known = max(
                share_equivalent_at_mean(*draw_gains_and_margins(n, 0.5, rho, power))
                for rho in CORRELATIONS
            )
            cells = " | ".join(f"{min(row):.1f}–{max(row):.1f}" for row in rows)
            law = "straight" if power is None else f"power {power:g}"
            print(f"| {law} | {n} | {cells} | {known:.1f} |")


if __name__ == "__main__":
    main()
