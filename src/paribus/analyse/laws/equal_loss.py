"""How much compute another arm needs for the same loss, over compute, and where two arms cross.

An arm's *path* is a series of rungs of its ladder with one number of tokens per parameter: N(C) and
D(C) between rungs are straight in logarithms. Losses along it are those of its law. The multiplier
of an arm at C is C′/C, where what it is judged against reaches at C′, on its own path, the loss
that the arm reaches at C. Above 1, the arm saves compute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from paribus.analyse.laws.fit import LawFit, effective_df
from paribus.analyse.laws.points import unlogged
from paribus.analyse.laws.profile import covariance
from paribus.analyse.laws.solver import Array, LawModel, law_jacobian
from paribus.errors import SpecError

MAX_EXTRAPOLATION = 4.0  # beyond the data, in compute
N_INSIDE, N_BEYOND = 33, 8  # places within the data, and beyond their end
N_READ = 2000  # places at which the other arm's path is read
SLACK = 1e-6  # of ln compute: rounding at the ends of the data
NO_CROSSING = "no crossing within the data"


@dataclass(frozen=True)
class ComputePath:
    """Rungs of an arm from the cheapest: training FLOPs, parameters and tokens, as logarithms."""

    log_compute_R: Array
    log_parameters_R: Array
    log_tokens_R: Array

    def places(self, log_compute: Array) -> tuple[Array, Array]:
        """ln N and ln D at some compute; beyond the ends, the last two rungs go on."""
        return (
            _interpolate(log_compute, self.log_compute_R, self.log_parameters_R),
            _interpolate(log_compute, self.log_compute_R, self.log_tokens_R),
        )


@dataclass(frozen=True)
class EqualLoss:
    """The multiplier at one compute, with its pointwise band.

    The factor is None where the other arm reaches the loss only further than a factor of 4 beyond
    its data, or nowhere.
    """

    compute: float
    factor: float | None
    low: float | None
    high: float | None
    extrapolated: bool  # does either arm leave its data?


@dataclass(frozen=True)
class LawCrossing:
    """Where the multiplier of an arm passes 1."""

    compute: float | None
    low: float | None  # from here on the band holds 1; None where it does at the first place
    high: float | None
    extrapolated: bool
    is_shown: bool  # is the arm worse on one side and better on the other, beyond the band?

    @property
    def words(self) -> str:
        """What a report says of it."""
        if self.compute is None:
            return NO_CROSSING
        if self.extrapolated:
            return f"{NO_CROSSING}; the laws cross beyond them"
        if not self.is_shown:
            return "the laws cross within the data, but the band holds 1 on one side or both"
        return "the arms cross within the data"


def compute_path(rungs: Sequence[tuple[float, float, float]]) -> ComputePath:
    """A path through rungs of compute, parameters and tokens; SpecError where it does not rise."""
    if len(rungs) < 2:
        raise SpecError(f"rungs of a path: {len(rungs)} given; use 2 or more")
    for values in rungs:
        if not min(values) > 0:
            raise SpecError(f"rungs of a path: {values} is not above 0; use numbers above 0")
    compute, parameters, tokens = np.log(np.array(sorted(rungs), dtype=np.float64)).T
    if not (np.diff(compute) > 0).all():
        raise SpecError("rungs of a path: two have the same compute; use one for each size")
    return ComputePath(compute, parameters, tokens)


@dataclass(frozen=True)
class FittedLoss:
    """The loss of an arm's law at one compute of its path, with a pointwise interval."""

    compute: float
    parameters: float
    loss: float
    low: float
    high: float
    extrapolated: bool


def fitted_curve(fit: LawFit, arm: int, path: ComputePath, level: float = 0.95) -> list[FittedLoss]:
    """The loss along an arm's path, up to a factor of 4 beyond its data. The interval is of the
    law, by the delta method on ln loss, and not of a run.
    """
    log_compute = _places(path)
    log_loss, gradient = _path_loss(fit, arm, path, log_compute)
    half = _half_widths(fit, gradient, level)
    log_parameters, _ = path.places(log_compute)
    beyond = _is_outside(log_compute, path)
    curve: list[FittedLoss] = []
    for at, size, mean, width, is_beyond in zip(
        log_compute, log_parameters, log_loss, half, beyond, strict=True
    ):
        point = FittedLoss(
            compute=exp(at),
            parameters=exp(size),
            loss=exp(mean),
            low=unlogged(mean - width),
            high=unlogged(mean + width),
            extrapolated=bool(is_beyond),
        )
        curve.append(point)
    return curve


def equal_loss_curve(
    fit: LawFit,
    arms: tuple[int, int],
    paths: tuple[ComputePath, ComputePath],
    level: float = 0.95,
) -> list[EqualLoss]:
    """The multiplier of the first arm against the second over the first arm's compute, up to a
    factor of 4 beyond its data.

    The band is pointwise, by the delta method on ln factor with the covariance of the joint fit.
    """
    own, other = paths
    log_compute = _places(own)
    own_loss, own_gradient = _path_loss(fit, arms[0], own, log_compute)
    ends = other.log_compute_R[0], other.log_compute_R[-1]
    reach = log(MAX_EXTRAPOLATION) + SLACK
    read = np.linspace(ends[0] - reach, ends[1] + reach, N_READ)
    other_loss, _ = _path_loss(fit, arms[1], other, read)
    # losses fall along a path: turned round, they rise, as interpolation needs
    reached = np.interp(own_loss, other_loss[::-1], read[::-1], left=np.nan, right=np.nan)
    found = np.where(np.isnan(reached), read[-1], reached)
    _, other_gradient = _path_loss(fit, arms[1], other, found)
    step = read[1] - read[0]
    ahead, behind = (_path_loss(fit, arms[1], other, found + side * step)[0] for side in (1, -1))
    slope = (ahead - behind) / (2 * step)
    gradient = (own_gradient - other_gradient) / slope[:, None]
    half = _half_widths(fit, gradient, level)
    is_beyond = _is_outside(log_compute, own) | _is_outside(found, other)
    curve: list[EqualLoss] = []
    for at, where, width, beyond in zip(log_compute, reached, half, is_beyond, strict=True):
        if np.isnan(where):
            point = EqualLoss(exp(at), factor=None, low=None, high=None, extrapolated=True)
        else:
            ratio = float(where - at)
            point = EqualLoss(
                compute=exp(at),
                factor=exp(ratio),
                low=unlogged(ratio - width),
                high=unlogged(ratio + width),
                extrapolated=bool(beyond),
            )
        curve.append(point)
    return curve


def _half_widths(fit: LawFit, gradient_GQ: Array, level: float) -> Array:
    """Half of each pointwise interval, by the delta method with the covariance of the fit."""
    variance = covariance(fit.data, fit.best)[0]
    error = np.sqrt(np.einsum("gq,qr,gr->g", gradient_GQ, variance, gradient_GQ))
    return stdtrit(effective_df(fit, gradient_GQ), (1 + level) / 2) * error


def find_crossing(curve: Sequence[EqualLoss]) -> LawCrossing:
    """Where a multiplier passes 1: first of all within the data, else beyond them."""
    known = [point for point in curve if point.factor is not None]
    inside = [point for point in known if not point.extrapolated]
    for points, extrapolated in ((inside, False), (known, True)):
        for before, after in pairwise(points):
            assert before.factor is not None
            assert after.factor is not None
            one, two = log(before.factor), log(after.factor)
            if one == 0 or one * two < 0:
                place = log(before.compute)
                if one != two:
                    place += (log(after.compute) - place) * one / (one - two)
                return _described(points, exp(place), extrapolated)
    return LawCrossing(compute=None, low=None, high=None, extrapolated=False, is_shown=False)


def _described(points: Sequence[EqualLoss], compute: float, extrapolated: bool) -> LawCrossing:
    """A crossing with the range of compute around it at which the band holds 1."""
    decided = {point.compute: _side(point) for point in points}
    below = [at for at, side in decided.items() if at < compute and side]
    above = [at for at, side in decided.items() if at >= compute and side]
    low, high = max(below, default=None), min(above, default=None)
    is_shown = low is not None and high is not None and decided[low] == -decided[high]
    return LawCrossing(
        compute=compute, low=low, high=high, extrapolated=extrapolated, is_shown=is_shown
    )


def _side(point: EqualLoss) -> int:
    """1 where the band lies above 1, −1 where below, 0 where it holds 1."""
    assert point.low is not None
    assert point.high is not None
    return int(point.low > 1) - int(point.high < 1)


def _places(path: ComputePath) -> Array:
    first, last = path.log_compute_R[0], path.log_compute_R[-1]
    inside = np.linspace(first, last, N_INSIDE)
    return np.concatenate([inside, last + np.linspace(0, log(MAX_EXTRAPOLATION), N_BEYOND + 1)[1:]])


def _is_outside(log_compute: Array, path: ComputePath) -> NDArray[np.bool_]:
    first, last = path.log_compute_R[0] - SLACK, path.log_compute_R[-1] + SLACK
    return (log_compute < first) | (log_compute > last)


def _path_loss(fit: LawFit, arm: int, path: ComputePath, log_compute: Array) -> tuple[Array, Array]:
    """ln L along a path, and its derivatives by the parameters of the fit."""
    model = model_at(fit.model, arm, *path.places(log_compute))
    fitted, jacobian = law_jacobian(model, fit.best.theta_PQ[:1])
    return fitted[0], jacobian[0]


def model_at(model: LawModel, arm: int, log_parameters_C: Array, log_tokens_C: Array) -> LawModel:
    """The law of an arm at other places than its cells."""
    places = np.tile(model.arm_places(arm), (len(log_parameters_C), 1))
    return LawModel(
        x_C=log_parameters_C - model.centre[0],
        z_C=log_tokens_C - model.centre[1],
        places_C5=places,
        is_floor_Q=model.is_floor_Q,
        centre=model.centre,
    )


def _interpolate(at: Array, x_R: Array, y_R: Array) -> Array:
    """Straight between the points, and on beyond them."""
    slopes = np.diff(y_R) / np.diff(x_R)
    part = np.clip(np.searchsorted(x_R, at) - 1, 0, len(slopes) - 1)
    return y_R[part] + slopes[part] * (at - x_R[part])
