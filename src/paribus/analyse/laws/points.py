"""Runs of a ladder as points (N, D, loss), their means by cell, and the designs that say too little
for a law.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import exp, floor, inf, isfinite, log
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from paribus.analyse.laws.rung_noise import RungNoise, rung_noise
from paribus.errors import SpecError

MIN_SIZES, MIN_SPREAD = 3, 4.0  # sizes of two durations, and how far apart these must be
ROUNDED = 0.95  # of that factor is enough: durations are whole steps
SAME_SIZE = 1.1  # sizes within this factor are one: those read off a figure are not exact
MIN_SIZES_BROKEN = 8
N_LAW_PARAMETERS = 5  # E, A, B, α, β
MAX_OFF_PATH = 1.25  # factor by which tokens may lie off a power of the parameters
MAX_LOG = 700.0  # of a number that a float can hold, about


@dataclass(frozen=True)
class LawPoint:
    """One annealed run: its parameters N, the tokens D that it read, and its loss in nats.

    Runs of one arm with equal N and D are seeds of one cell. Cells of several arms with the same
    `rung` are the same place of the ladder; without it, the rank of N and the tokens say so.
    """

    parameters: float
    tokens: float
    loss: float
    arm: str = ""
    seed: int = 0
    rung: str | None = None


@dataclass(frozen=True)
class LawCells:
    """The cells of one arm: means of ln loss over seeds, and what seeds differ by."""

    arm: str
    log_parameters_C: NDArray[np.float64]
    log_tokens_C: NDArray[np.float64]
    log_loss_C: NDArray[np.float64]
    n_runs_C: NDArray[np.float64]
    squares_C: NDArray[np.float64]  # sums of squares of ln loss about the means
    rungs: tuple[str, ...]
    relative_variance_C: NDArray[np.float64]  # of a run, as a multiple of that at a typical rung

    @property
    def pure_error(self) -> float:
        """The sum of squares between seeds, each over the relative variance of its rung."""
        return float((self.squares_C / self.relative_variance_C).sum())

    @property
    def pure_df(self) -> int:
        """Degrees of freedom between seeds of the same cell."""
        return int(self.n_runs_C.sum()) - len(self.n_runs_C)


def unlogged(value: float) -> float:
    """e to this power; infinite where that is more than a number can hold."""
    return inf if value >= MAX_LOG else exp(value)


def log_loss_unit(log_loss_C: NDArray[np.float64]) -> float:
    """ln of the power of ten that losses are divided by before a fit; 0 for losses from 1 to 10.

    E is fitted as it is and not as a logarithm, so a solver loses digits where losses are far
    from 1.
    """
    return log(10) * floor(float(np.median(log_loss_C)) / log(10))


def cells_by_arm(points: Iterable[LawPoint]) -> dict[str, LawCells]:
    """The cells of each arm, in the order in which arms appear, with the noise of their rungs;
    SpecError where no law can be fitted to them.
    """
    by_arm: dict[str, list[LawPoint]] = {}
    for point in points:
        by_arm.setdefault(point.arm, []).append(point)
    if not by_arm:
        raise SpecError(f"points: none are given; a law needs more than {N_LAW_PARAMETERS} cells")
    for arm, own in by_arm.items():
        require_identified(own, arm)
    cells = [_arm_cells(arm, own) for arm, own in by_arm.items()]
    rungs, noise = noise_of_rungs(cells)
    relative = dict(zip(rungs, noise.relative_PR[0], strict=True))
    weighted: dict[str, LawCells] = {}
    for own in cells:
        relative_C = np.array([relative[rung] for rung in own.rungs])
        weighted[own.arm] = replace(own, relative_variance_C=relative_C)
    return weighted


def noise_of_rungs(arms: Sequence[LawCells]) -> tuple[list[str], RungNoise]:
    """The rungs of some arms, and how their noise differs."""
    rungs = sorted({rung for cells in arms for rung in cells.rungs})
    squares_AR, df_AR = np.zeros((len(arms), len(rungs))), np.zeros((len(arms), len(rungs)))
    log_tokens_R = np.zeros(len(rungs))
    for number, cells in enumerate(arms):
        places = [rungs.index(rung) for rung in cells.rungs]
        squares_AR[number, places] = cells.squares_C
        df_AR[number, places] = cells.n_runs_C - 1
        log_tokens_R[places] = cells.log_tokens_C
    return rungs, rung_noise(squares_AR[None], df_AR, log_tokens_R)


def require_identified(points: Sequence[LawPoint], arm: str = "") -> None:
    """SpecError unless three sizes or more have two durations a factor of 4 or more apart.

    With D proportional to N the terms A/N^α and B/D^β cannot be told apart.
    """
    place = f"points of {arm!r}" if arm else "points"
    _require_positive(points, place)
    n_spread = count_spread_sizes(points)
    n_cells = len({(point.parameters, point.tokens) for point in points})
    if n_spread < MIN_SIZES:
        raise SpecError(
            f"{place}: {_describe_spread(points, n_spread)}; a law needs"
            f" {MIN_SIZES} sizes or more with 2 durations or more that are a factor of"
            f" {MIN_SPREAD:g} or more apart: add such runs"
        )
    if n_cells <= N_LAW_PARAMETERS:
        raise SpecError(
            f"{place}: {n_cells} pairs of parameters and tokens for {N_LAW_PARAMETERS} numbers of"
            f" the law; use {N_LAW_PARAMETERS + 1} or more"
        )


def path_cells(points: Sequence[LawPoint], arm: str = "") -> LawCells:
    """The cells of a law of size alone: eight sizes or more with one duration each, on a path
    where tokens stay the same or are a power of the parameters. SpecError otherwise.
    """
    place = f"points of {arm!r}" if arm else "points"
    _require_positive(points, place)
    sizes = _durations_by_size(points)
    if len(sizes) < MIN_SIZES_BROKEN:
        raise SpecError(
            f"{place}: {_count_sizes(points)} for a broken law; use {MIN_SIZES_BROKEN} or"
            " more, or the law without --broken"
        )
    for size, tokens in sizes.items():
        if len(tokens) > 1:
            raise SpecError(
                f"{place}: the size {size:g} has {len(tokens)} durations; a broken law is one of"
                " size alone, so keep one for each size: the same tokens for all, or those of the"
                " compute-optimal line"
            )
    cells = _arm_cells(arm, points)
    _require_path(cells, place)
    return cells


def _require_path(cells: LawCells, place: str) -> None:
    """SpecError where tokens bend as sizes grow: the loss would bend with them."""
    x_C, z_C = cells.log_parameters_C, cells.log_tokens_C
    slope, level = np.polyfit(x_C - x_C.mean(), z_C, 1)
    off_C = np.abs(z_C - level - slope * (x_C - x_C.mean()))
    furthest = int(off_C.argmax())
    if off_C[furthest] > log(MAX_OFF_PATH):
        raise SpecError(
            f"{place}: the tokens of the size {exp(x_C[furthest]):g} are a factor of"
            f" {exp(off_C[furthest]):.3g} off a power of the parameters, and such a bend would look"
            f" like a break of the law; use tokens within a factor of {MAX_OFF_PATH:g} of one"
        )


def count_spread_sizes(points: Sequence[LawPoint]) -> int:
    """How many sizes have durations that lie far enough apart."""
    least, n_spread = ROUNDED * MIN_SPREAD, 0
    for tokens in _durations_by_size(points).values():
        n_spread += max(tokens) >= least * min(tokens)
    return n_spread


def _require_positive(points: Sequence[LawPoint], place: str) -> None:
    for point in points:
        for name in ("parameters", "tokens", "loss"):
            value = getattr(point, name)
            if not (isfinite(value) and value > 0):
                raise SpecError(f"{place}: {name} is {value:g}; use numbers above 0")


def _durations_by_size(points: Sequence[LawPoint]) -> dict[float, set[float]]:
    """The tokens of each size; sizes within 10 % of the smallest of them are one."""
    sizes: dict[float, set[float]] = {}
    smallest = 0.0
    for point in sorted(points, key=lambda one: one.parameters):
        if point.parameters > SAME_SIZE * smallest:
            smallest = point.parameters
        sizes.setdefault(smallest, set()).add(point.tokens)
    return sizes


def _describe_spread(points: Sequence[LawPoint], n_spread: int) -> str:
    ratios = [point.tokens / point.parameters for point in points]
    if len(_durations_by_size(points)) > 1 and max(ratios) < SAME_SIZE * min(ratios):
        return (
            f"tokens are proportional to parameters ({ratios[0]:.3g} tokens per parameter), so A"
            " and B cannot be told apart"
        )
    with_spread = f"{n_spread} with durations a factor of {MIN_SPREAD:g} or more apart"
    return f"{_count_sizes(points)}, {with_spread}"


def _count_sizes(points: Sequence[LawPoint]) -> str:
    """How many sizes points have, and how many numbers of parameters, if these are more."""
    n_sizes, n_given = len(_durations_by_size(points)), len({one.parameters for one in points})
    counted = "1 size" if n_sizes == 1 else f"{n_sizes} sizes"
    if n_given == n_sizes:
        return counted
    share = round(100 * (SAME_SIZE - 1))
    return f"{counted} ({n_given} are given, and those within {share} % of each other count as one)"


def _arm_cells(arm: str, points: Sequence[LawPoint]) -> LawCells:
    losses: dict[tuple[float, float], list[float]] = {}
    rungs: dict[tuple[float, float], str] = {}
    sizes = sorted({point.parameters for point in points})
    for point in points:
        cell = (point.parameters, point.tokens)
        losses.setdefault(cell, []).append(log(point.loss))
        rungs[cell] = point.rung or f"{sizes.index(point.parameters)}:{point.tokens:g}"
    order = sorted(losses)
    deviations = [np.array(losses[cell]) - fmean(losses[cell]) for cell in order]
    return LawCells(
        arm=arm,
        log_parameters_C=np.log([cell[0] for cell in order]),
        log_tokens_C=np.log([cell[1] for cell in order]),
        log_loss_C=np.array([fmean(losses[cell]) for cell in order]),
        n_runs_C=np.array([len(losses[cell]) for cell in order], dtype=np.float64),
        squares_C=np.array([float((one**2).sum()) for one in deviations]),
        rungs=tuple(rungs[cell] for cell in order),
        relative_variance_C=np.ones(len(order)),
    )
