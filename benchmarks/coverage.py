"""How often paribus is right, by simulation: coverage, false alarms and power, as the tables of
docs/statistics.md.

    python benchmarks/coverage.py                   # 20,000 experiments a number
    python benchmarks/coverage.py --draws 2000

Every number is in percent and comes from the functions that judge real runs. The generator is
fixed; the standard error of a share near 95 % is 0.15 at 20,000 draws.
"""

import argparse
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from paribus.analyse import (
    always_valid_t,
    compare,
    crossed_interval,
    detectable_effect,
    equivalence_margin,
    fit_vertex,
    interval,
    p_value,
)
from paribus.analyse.criterion import Criterion
from paribus.analyse.interval import moments
from paribus.analyse.looks import SUGGESTED_LOOKS
from paribus.analyse.verdict import LESS_THAN_MARGIN

Array = NDArray[np.float64]
SEEDS = (3, 5, 10)
RATES = tuple(2.0**k for k in range(-12, -7))
N_ITEMS = 200


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """A table in Markdown."""
    head = list(head)
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        cells = [f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in row]
        print(f"| {' | '.join(cells)} |")


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.normal(size=shape)


def heavy(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Student's t with 3 degrees of freedom, of variance 1."""
    return rng.standard_t(3, size=shape) / np.sqrt(3)


def skewed(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Lognormal, of mean 0 and variance 1."""
    return (rng.lognormal(size=shape) - np.exp(0.5)) / np.sqrt((np.e - 1) * np.e)


Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
NOISES: dict[str, tuple[Draw, Draw, float]] = {
    "normal in both arms": (normal, normal, 1),
    "normal, one arm 3 times noisier": (normal, normal, 3),
    "t with 3 df in both arms": (heavy, heavy, 1),
    "t with 3 df, one arm 3 times noisier": (heavy, heavy, 3),
    "lognormal in both arms": (skewed, skewed, 1),
    "one arm normal, the other lognormal": (normal, skewed, 1),
    "one arm normal, the other lognormal and 3 times noisier": (normal, skewed, 3),
    "both lognormal, one 3 times noisier": (skewed, skewed, 3),
}


def share(said: object) -> float:
    return 100 * float(np.mean(np.asarray(said)))


def covered(rng: np.random.Generator, noise: tuple[Draw, Draw, float], n: int, draws: int) -> float:
    """How often the 95 % interval holds the true difference of zero."""
    first, second, ratio = noise
    low, high = interval(ratio * second(rng, (draws, n)) - first(rng, (draws, n)), 0.95)
    return share((np.asarray(low) < 0) & (np.asarray(high) > 0))


def alarms(gains: Array, at: dict[int, float]) -> float:
    """How often p falls below its share at any of the looks."""
    return share(
        np.any([np.asarray(p_value(gains[:, :n])) < spent for n, spent in at.items()], axis=0)
    )


def open_alarms(gains: Array) -> float:
    """How often |t| ever passes the boundary for an open number of seeds."""
    passed = []
    for n in range(3, gains.shape[1] + 1):
        found = moments(gains[:, :n])
        passed.append(np.abs(found.mean / found.standard_error) > always_valid_t(n))
    return share(np.any(passed, axis=0))


def better(gains: Array) -> float:
    return share([compare(one).verdict.word == "better" for one in gains.tolist()])


def within(gains: Array, margin: float) -> float:
    """How often a difference is found smaller than the margin, whether or not it is also found
    to be there.
    """
    verdicts = [compare(one, Criterion(margin=margin)).verdict for one in gains.tolist()]
    return share(
        [verdict.word == "equivalent" or verdict.detail == LESS_THAN_MARGIN for verdict in verdicts]
    )


def crossed(rng: np.random.Generator, n: int, ratio: float, draws: int) -> float:
    """How often the interval for new documents holds; seeds add `ratio` times as much spread to
    the mean as items.
    """
    hits = 0
    for _ in range(draws):
        seeds, items = (
            ratio / np.sqrt(N_ITEMS) * rng.normal(size=(n, 1)),
            rng.normal(size=(1, N_ITEMS)),
        )
        found = crossed_interval(seeds + items + rng.normal(size=(n, N_ITEMS)))
        hits += found.low < 0 < found.high
    return 100 * hits / draws


def tuned(rng: np.random.Generator, curvature: float, fitted: bool, draws: int) -> float:
    """How often two arms, equally good at their own best rates, are told apart at the rates
    they were tuned to.
    """
    x, false = np.log2(RATES), 0
    for _ in range(draws):
        scores = []
        for best in rng.uniform(-11, -9, size=2):
            sweep = curvature * (x - best) ** 2 + rng.normal(size=(2, len(x)))
            chosen = float(x[sweep.mean(axis=0).argmin()])
            if fitted:
                found = fit_vertex(
                    [point for row in sweep.tolist() for point in zip(RATES, row, strict=True)]
                )
                chosen = chosen if found.rate is None else float(np.log2(found.rate))
            scores.append(curvature * (chosen - best) ** 2 + rng.normal(size=5))
        false += compare((scores[0] - scores[1]).tolist()).verdict.word in ("better", "worse")
    return 100 * false / draws


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20_000)
    draws, rng = parser.parse_args().draws, np.random.default_rng(1)
    head = [f"n = {n}" for n in SEEDS]
    rows = [
        (name, *(covered(rng, noise, n, draws) for n in SEEDS)) for name, noise in NOISES.items()
    ]
    table("Coverage of the 95 % interval", ["noise", *head], rows)

    gains = rng.normal(size=(draws, 60))
    looked = [
        ("once, at 5 seeds", alarms(gains, {5: 0.05})),
        ("at 5 seeds with a share of 0.01, at 10 with 0.04", alarms(gains, dict(SUGGESTED_LOOKS))),
        ("at 5 and at 10 seeds, each at 0.05", alarms(gains, {5: 0.05, 10: 0.05})),
        (
            "after every seed from 3 to 10, each at 0.05",
            alarms(gains, dict.fromkeys(range(3, 11), 0.05)),
        ),
        ("after every seed from 3 to 60, by `always_valid_t`", open_alarms(gains)),
    ]
    table("False alarms: better or worse, where nothing differs", ["looked", "%"], looked)

    few = min(draws, 4000)
    power = []
    for n in (3, 5, 8, 10, 20):
        noise, effect, margin = (
            rng.normal(size=(few, n)),
            detectable_effect(n),
            equivalence_margin(n),
        )
        power.append(
            (n, f"{effect:.2f}", better(noise + effect), f"{margin:.2f}", within(noise, margin))
        )
    table(
        "Power at what n seeds detect",
        ["n", "effect, sd_d", "`better`", "margin, sd_d", "within, true zero"],
        power,
    )

    rows = [
        (f"{ratio:g}", *(crossed(rng, n, ratio, few) for n in SEEDS)) for ratio in (0.02, 0.2, 1, 5)
    ]
    table(
        "Coverage on new documents (200 of them)",
        ["seeds' part of the spread over items'", *head],
        rows,
    )

    rows = [(c, tuned(rng, c, True, few), tuned(rng, c, False, few)) for c in (1, 3, 10)]
    table(
        "False verdicts after tuning, n = 5",
        ["curvature, sd an octave²", "vertex", "best of the grid"],
        rows,
    )


if __name__ == "__main__":
    main()
