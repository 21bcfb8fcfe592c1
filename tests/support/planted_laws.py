"""Planted laws on the ladder's design: 5 widths of 6 layers, 13 cells of 3 seeds, 5 arms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.fit import LawFit, fit_many
from paribus.analyse.laws.points import LawCells, LawPoint
from paribus.analyse.laws.rung_noise import rung_noise

Array = NDArray[np.float64]

WIDTHS = (64, 96, 128, 192, 256)
N_SEEDS = 3
N_CELLS = 13
N_TOKENS_IN_TABLE = 4096
# The standard deviation of ln loss between seeds: more than the median over the arms of
# encoder-decoder-hour, 0.0023.
SEED_NOISE = 0.0032
# The same for each cell of the ladder, in the order of `ladder`: pooled over the arms of a ladder
# that was not finished. The last three were not run, and are taken to be a little less noisy.
RUNG_NOISE = np.array(
    [
        *(0.037, 0.0050, 0.0019),
        *(0.029, 0.0018, 0.0024),
        *(0.0048, 0.0034, 0.00099),
        *(0.0017, 0.0015),
        *(0.0015, 0.0012),
    ]
)
# Block parameters over those of a causal stack: causal, prefix, encoder-decoder of 3+3, shared, 2P.
ARM_SIZES = {"causal": 1.0, "prefix": 1.0, "3+3": 1.17, "shared": 1.33, "2P": 2.33}
N_CENTRE, D_CENTRE = 2e6, 2e7


def ladder(size: float = 1.0) -> list[tuple[float, float]]:
    """Parameters with the tied table, and tokens, of every cell of an arm."""
    cells: list[tuple[float, float]] = []
    for width in WIDTHS:
        blocks = 72 * width**2  # six layers of 12·d²
        for ratio in (5, 20, 80) if width <= 128 else (5, 20):
            cells.append((size * blocks + N_TOKENS_IN_TABLE * width, ratio * blocks))
    return cells


def ladder_cells(arm: str = "causal") -> LawCells:
    """The cells of an arm, without losses."""
    places = np.log(np.array(ladder(ARM_SIZES[arm])))
    return LawCells(
        arm=arm,
        log_parameters_C=places[:, 0],
        log_tokens_C=places[:, 1],
        log_loss_C=np.zeros(N_CELLS),
        n_runs_C=np.full(N_CELLS, float(N_SEEDS)),
        squares_C=np.zeros(N_CELLS),
        rungs=tuple(map(str, range(N_CELLS))),
        relative_variance_C=np.ones(N_CELLS),
    )


def planted_laws(rng: np.random.Generator, n_laws: int) -> Array:
    """E, lnA, lnB, α and β of laws with losses of 2.4 to 6 in the middle of the ladder."""
    floor, alpha, beta = (
        rng.uniform(1.0, 2.5, n_laws),
        rng.uniform(0.25, 0.5, n_laws),
        rng.uniform(0.25, 0.5, n_laws),
    )
    size, data = rng.uniform(0.8, 1.8, n_laws), rng.uniform(0.6, 1.6, n_laws)
    log_a = np.log(size) + alpha * np.log(N_CENTRE)
    log_b = np.log(data) + beta * np.log(D_CENTRE)
    return np.stack([floor, log_a, log_b, alpha, beta], axis=1)


def steeper(laws_P5: Array, alpha: float = 0.0, beta: float = 0.0) -> Array:
    """Laws with other exponents and equal losses in the middle of the ladder."""
    change = [0.0, alpha * np.log(N_CENTRE), beta * np.log(D_CENTRE), alpha, beta]
    return laws_P5 + np.array(change)


def true_log_loss(laws_P5: Array, cells: LawCells) -> Array:
    floor, log_a, log_b, alpha, beta = laws_P5.T[:, :, None]
    size = np.exp(log_a - alpha * cells.log_parameters_C)
    return np.log(floor + size + np.exp(log_b - beta * cells.log_tokens_C))


@dataclass(frozen=True)
class PlantedRuns:
    """Means of ln loss of many problems, and sums of squares between seeds, of one arm."""

    cells: LawCells
    log_loss_PC: Array
    squares_PC: Array

    def problem(self, number: int) -> LawCells:
        return replace(
            self.cells, log_loss_C=self.log_loss_PC[number], squares_C=self.squares_PC[number]
        )


def planted_runs(
    rng: np.random.Generator,
    laws_P5: Array,
    arm: str = "causal",
    noise: float | Array = SEED_NOISE,
    cells_off: float = 0.0,
) -> PlantedRuns:
    """Three seeds of every cell, with one noise or one for each cell; `cells_off` moves whole
    cells off their law.
    """
    cells = ladder_cells(arm)
    noise_C = np.broadcast_to(noise, N_CELLS)
    seeds = noise_C[:, None] * rng.normal(size=(len(laws_P5), N_CELLS, N_SEEDS))
    off = cells_off * rng.normal(size=(len(laws_P5), N_CELLS))
    means = seeds.mean(axis=2)
    return PlantedRuns(
        cells=cells,
        log_loss_PC=true_log_loss(laws_P5, cells) + off + means,
        squares_PC=((seeds - means[:, :, None]) ** 2).sum(axis=2),
    )


def fit_planted(
    runs: list[PlantedRuns], shared_floor: bool = True, beside: Sequence[PlantedRuns] = ()
) -> LawFit:
    """The laws of some arms; the noise of rungs comes from these and from arms beside them."""
    arms = [*runs, *beside]
    squares_PAR = np.stack([one.squares_PC for one in arms], axis=1)
    df_AR = np.full((len(arms), N_CELLS), N_SEEDS - 1.0)
    relative_PC = rung_noise(squares_PAR, df_AR, runs[0].cells.log_tokens_C).relative_PR
    return fit_many(
        [one.cells for one in runs],
        np.concatenate([one.log_loss_PC for one in runs], axis=1),
        np.concatenate([one.squares_PC for one in runs], axis=1),
        np.tile(relative_PC, len(runs)),
        shared_floor,
    )


def one_arm(
    seed: int,
    law_5: Array,
    arm: str = "causal",
    noise: float | Array = SEED_NOISE,
    cells_off: float = 0.0,
) -> LawCells:
    """The cells of one arm under one law."""
    rng = np.random.default_rng(seed)
    return planted_runs(rng, law_5[None], arm, noise, cells_off).problem(0)


def exact_points(law_5: Array, arm: str = "") -> list[LawPoint]:
    """Points of the ladder that lie on a law."""
    points: list[LawPoint] = []
    floor, log_a, log_b, alpha, beta = law_5
    for parameters, tokens in ladder():
        size = np.exp(log_a - alpha * np.log(parameters))
        loss = floor + size + np.exp(log_b - beta * np.log(tokens))
        points.append(LawPoint(parameters, tokens, float(loss), arm))
    return points
