"""How often arms that are equal at every rate get a false word after tuning, as the table of
docs/statistics.md.

    python benchmarks/tuned_verdicts.py                   # 4,000 studies of two arms, 1,000 of nine
    python benchmarks/tuned_verdicts.py --draws 400

All arms have one curve of loss by rate, but for the highest rate of the grid: it diverges in every
other arm, and is finite and bad in the rest. The grid is offset by up to half an octave. Rates come
from the search that real sweeps use, words from the functions that judge real runs. The generator
is fixed; the standard error of a share near 5 % is 0.34 at 4,000 draws and 0.7 at 1,000. `one
parabola` is the first edition's rule, kept to show what it costs.
"""

import argparse
from math import inf, log2

import numpy as np
from numpy.typing import NDArray

from paribus.analyse import compare, extend_grid, refine_vertex
from paribus.analyse.criterion import Criterion
from paribus.analyse.tuning import tuning_could_overturn

Array = NDArray[np.float64]
# bits per byte: of the unigram model, and of the highest rate where it does not diverge
UNIGRAM, BAD = (
    2.54,
    2.3,
)
TOP = 1.5  # octaves from the best rate to the highest of the grid, ± half an octave
SD = 0.003  # of paired gains between reported seeds
NOISES = (0.0005, 0.002, 0.005, 0.01, 0.02, 0.03)  # sd between sweep runs
SLOPES = (0.04, -0.0037)  # of the curve: bits per byte an octave², and an octave³


def curve(away: float) -> float:
    """The loss so many octaves from the best rate, as measured: steeper below it than above."""
    return 1.72 + SLOPES[0] * away**2 + SLOPES[1] * away**3


class Sweep:
    """Two sweep seeds of one arm: the scores at each rate, drawn once."""

    def __init__(
        self, rng: np.random.Generator, grid: tuple[float, ...], diverges: bool, noise: float
    ):
        self.rng, self.grid, self.noise = rng, grid, noise
        self.highest = None if diverges else BAD
        self.points = [point for rate in grid for point in self.draw(rate)]

    def draw(self, rate: float) -> list[tuple[float, float | None]]:
        if rate == self.grid[-1]:
            return [(rate, self.highest)] * 2
        return [
            (rate, curve(log2(rate)) + self.noise * one)
            for one in self.rng.standard_normal(2).tolist()
        ]

    def searched(self) -> tuple[float, float]:
        """log₂ of the rate that the search finds, and what tuning could move."""
        grid, n_extensions = self.grid, 0
        while True:
            found = refine_vertex(self.points, grid, unigram=UNIGRAM)
            if found.rate is not None:
                return log2(found.rate), inf if found.excess is None else found.excess
            longer = extend_grid(grid, [found], n_extensions)
            new = found.tries if longer == grid else [rate for rate in longer if rate not in grid]
            n_extensions += longer != grid
            grid = longer
            self.points += [point for rate in new for point in self.draw(rate)]

    def one_parabola(self) -> tuple[float, float]:
        """log₂ of the vertex of a parabola through all rates that did not diverge."""
        there = [(log2(rate), score) for rate, score in self.points if score is not None]
        rates, scores = zip(*there, strict=True)
        a, b, _ = np.polyfit(rates, scores, 2)
        return float(-b / (2 * a)), 0.0


def tuned_arms(noise: float, n_arms: int, draws: int, rule: str) -> tuple[Array, Array]:
    """Scores at the tuned rates, and what tuning could move, of so many equal arms in each
    study.
    """
    rng = np.random.default_rng(83)
    scores, excess = np.empty((draws, n_arms)), np.empty((draws, n_arms))
    for study in range(draws):
        top = TOP + rng.uniform(-0.5, 0.5)
        grid = tuple(float(2.0 ** (top - place)) for place in (4, 3, 2, 1, 0))
        for arm in range(n_arms):
            sweep = Sweep(rng, grid, arm % 2 == 0, noise)
            best, excess[study, arm] = (
                sweep.searched() if rule == "search" else sweep.one_parabola()
            )
            scores[study, arm] = curve(best)
    return scores, excess


def false_words(scores: Array, excess: Array, n: int) -> tuple[float, float]:
    """Percent of studies with a false word: any, and one that does not say that tuning could
    overturn it.
    """
    rng, n_false, n_plain = np.random.default_rng(89), 0, 0
    draws, n_arms = scores.shape
    runs = scores[:, :, None] + SD / np.sqrt(2) * rng.standard_normal((draws, n_arms, n))
    for gains, own in zip(runs[:, :1] - runs[:, 1:], excess, strict=True):
        made = [compare(one, Criterion(n_comparisons=n_arms - 1)) for one in gains.tolist()]
        doubts = [
            tuning_could_overturn(one, max(own[0], other))
            for one, other in zip(made, own[1:], strict=True)
            if one.verdict.word in ("better", "worse")
        ]
        n_false += bool(doubts)
        n_plain += not all(doubts)
    return 100 * n_false / draws, 100 * n_plain / draws


def row(rule: str, noise: float, m: int, draws: int) -> None:
    arms = tuned_arms(noise, m + 1, draws, rule)
    told = [
        f"{any_word:.1f} / {plain:.1f}"
        for any_word, plain in (false_words(*arms, n) for n in (5, 10))
    ]
    print(f"| {rule} | {noise:g} | {m} | {' | '.join(told)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=4000)
    draws = parser.parse_args().draws
    print(
        "| rule | sweep noise, bits per byte | m | n = 5: all / without the remark, % | n = 10"
        " |\n|---|---|---|---|---|"
    )
    for m, n_studies in ((1, draws), (8, draws // 4)):
        for noise in NOISES:
            row("search", noise, m, n_studies)
    for m in (1, 8):
        row("one parabola", 0.002, m, draws // 4)


if __name__ == "__main__":
    main()
