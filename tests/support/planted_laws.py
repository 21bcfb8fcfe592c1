"""Planted laws on the places of the kept ladder: 5 widths of 6 layers, 13 cells of 3 seeds, 5
arms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.fit import LawFit, effective_df, fit_many
from paribus.analyse.laws.points import LawCells, LawPoint
from paribus.analyse.laws.profile import QUANTITIES, profile_interval, quantity
from paribus.analyse.laws.rung_noise import rung_noise

Array = NDArray[np.float64]

N_SEEDS = 3
# As in the plan of ladder-hour; tests/analyse/test_kept_ladder.py compares them with it.
TOKENS = (  # of each size, from the narrowest
    (1500160, 6000640, 24002560),
    (3356160, 13424640, 53698560),
    (5949440, 23797760, 95191040),
    (13347840, 53391360),
    (23695360, 94781440),
)
PARAMETERS = {  # of each size, with the tied table
    "causal": (562176, 1064448, 1714176, 3456000, 5787648),
    "prefix": (562176, 1064448, 1714176, 3456000, 5787648),
    "3+3": (563072, 1065792, 1715968, 3458688, 5791232),
    "shared": (563840, 1066944, 1717504, 3460992, 5794304),
    "2P": (962816, 1886208, 3104512, 6425856, 10926848),
}
PREDICTED_PARAMETERS, PREDICTED_TOKENS = 10391040, 94_000_000  # of a decoder
N_CELLS = sum(map(len, TOKENS))
# The standard deviation of ln loss between seeds: more than the median over the arms of
# encoder-decoder-hour, 0.0023.
SEED_NOISE = 0.0032
# The same for each cell of the ladder, in the order of `ladder`: that of ladder-hour, pooled over
# its arms.
RUNG_NOISE = np.array(
    [
        *(0.0370, 0.0050, 0.0019),
        *(0.0293, 0.0018, 0.0024),
        *(0.0048, 0.0029, 0.0017),
        *(0.0032, 0.0018),
        *(0.0020, 0.0014),
    ]
)
NOISES = {"equal noise": SEED_NOISE, "noise by rung": RUNG_NOISE}
N_CENTRE, D_CENTRE = 2e6, 2e7


def ladder(arm: str = "causal") -> list[tuple[int, int]]:
    """Parameters with the tied table, and tokens, of every cell of an arm."""
    cells: list[tuple[int, int]] = []
    for n_parameters, durations in zip(PARAMETERS[arm], TOKENS, strict=True):
        cells += [(n_parameters, n_tokens) for n_tokens in durations]
    return cells


def ladder_cells(arm: str = "causal") -> LawCells:
    """The cells of an arm, without losses."""
    places = np.log(np.array(ladder(arm)))
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

    def problem(self, number: int, relative_C: Array | None = None) -> LawCells:
        """The cells of one problem; they count alike unless relative variances are given."""
        if relative_C is None:
            relative_C = self.cells.relative_variance_C
        return replace(
            self.cells,
            log_loss_C=self.log_loss_PC[number],
            squares_C=self.squares_PC[number],
            relative_variance_C=relative_C,
        )


def planted_runs(
    rng: np.random.Generator,
    laws_P5: Array,
    arm: str = "causal",
    noise: float | Array = SEED_NOISE,
    cells_off: float = 0.0,
    rungs_off_PC: Array | float = 0.0,
) -> PlantedRuns:
    """Three seeds of every cell, with one noise or one for each cell; `cells_off` moves whole
    cells off their law, and `rungs_off_PC` all arms alike.
    """
    cells = ladder_cells(arm)
    noise_C = np.broadcast_to(noise, N_CELLS)
    seeds = noise_C[:, None] * rng.normal(size=(len(laws_P5), N_CELLS, N_SEEDS))
    off = cells_off * rng.normal(size=(len(laws_P5), N_CELLS))
    means = seeds.mean(axis=2)
    return PlantedRuns(
        cells=cells,
        log_loss_PC=true_log_loss(laws_P5, cells) + off + rungs_off_PC + means,
        squares_PC=((seeds - means[:, :, None]) ** 2).sum(axis=2),
    )


def relative_variances(arms: Sequence[PlantedRuns]) -> Array:
    """The variance of a run in each cell, over that of a typical one, by the seeds of all arms."""
    squares_PAR = np.stack([one.squares_PC for one in arms], axis=1)
    df_AR = np.full((len(arms), N_CELLS), N_SEEDS - 1.0)
    return rung_noise(squares_PAR, df_AR, arms[0].cells.log_tokens_C).relative_PR


def fit_planted(
    runs: list[PlantedRuns],
    shared_floor: bool = True,
    beside: Sequence[PlantedRuns] = (),
    pools_misfit: bool = True,
) -> LawFit:
    """The laws of some arms; the noise of rungs comes from these and from arms beside them."""
    relative_PC = relative_variances([*runs, *beside])
    return fit_many(
        [one.cells for one in runs],
        np.concatenate([one.log_loss_PC for one in runs], axis=1),
        np.concatenate([one.squares_PC for one in runs], axis=1),
        np.tile(relative_PC, len(runs)),
        shared_floor,
        pools_misfit,
    )


def arms_with_one_floor(
    n_laws: int, noise: float | Array, cells_off: float = 0.0, rungs_off: float = 0.0
) -> tuple[Array, list[PlantedRuns]]:
    """The laws of a decoder, and the runs of five arms of which each has a law of its own, but for
    E; cells are off by themselves and all arms alike.
    """
    rng = np.random.default_rng(1)
    laws = planted_laws(rng, n_laws)
    runs: list[PlantedRuns] = []
    rungs_off_PC: Array | float = 0.0
    if rungs_off:
        rungs_off_PC = rungs_off * rng.normal(size=(n_laws, N_CELLS))
    for arm in PARAMETERS:
        own = planted_laws(rng, n_laws) if runs else laws
        own[:, 0] = laws[:, 0]
        runs.append(planted_runs(rng, own, arm, noise, cells_off, rungs_off_PC))
    return laws, runs


def interval_coverage(fit: LawFit, laws_P5: Array) -> dict[str, float]:
    """How often the intervals of the first arm hold its law, in per cent."""
    covered: dict[str, float] = {}
    for place, name in enumerate(QUANTITIES):
        chosen = quantity(fit.model, name)
        df_P = effective_df(fit, chosen.weights_Q[None])
        low, high = profile_interval(fit.data, fit.best, chosen, df_P)
        inside = (low <= laws_P5[:, place]) & (laws_P5[:, place] <= high)
        covered[name] = 100 * float(inside.mean())
    return covered


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
