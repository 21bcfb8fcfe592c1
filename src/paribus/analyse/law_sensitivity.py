"""Other readings of a ladder's laws: another interval, another N, another loss to minimise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from paribus.analyse.laws.bootstrap import bootstrap_intervals, bootstrap_parameters
from paribus.analyse.laws.fit import LawEstimate, LawFit, fit_arms, law_intervals
from paribus.analyse.laws.huber import huber_law
from paribus.analyse.laws.points import LawPoint, cells_by_arm
from paribus.analyse.laws.profile import QUANTITIES
from paribus.analyse.laws.shared_misfit import SharedMisfit
from paribus.errors import SpecError

BOOTSTRAP, COMMON, NON_EMBEDDING, EQUAL_NOISE, HUBER = (
    "wild bootstrap of cells",
    "arms miss together",
    "N without embeddings",
    "equal noise",
    "Huber's loss, an E for each arm",
)
BOOTSTRAP_SEED = 0  # the same draws in each report


@dataclass(frozen=True)
class OtherReading:
    """The law of one arm under another reading, or why there is none."""

    arm: str
    reading: str
    estimates: Mapping[str, LawEstimate]  # E, lnA, lnB, alpha, beta; empty where refused
    refusal: str = ""


def other_readings(
    fit: LawFit,
    points: Sequence[LawPoint],
    non_embedding: Mapping[tuple[str, str], float],
    common: SharedMisfit | None = None,
) -> list[OtherReading]:
    """Each arm's law under every other reading, arm by arm. `non_embedding` are the parameters in
    no embedding, by arm and rung; `common` is what arms miss their laws by together.
    """
    arms = [cells.arm for cells in fit.arms]
    draws = bootstrap_parameters(fit, BOOTSTRAP_SEED)
    smaller = _without_embeddings(points, non_embedding, fit.pools_misfit)
    alike = _with_equal_noise(fit)
    readings: list[OtherReading] = []
    for place, arm in enumerate(arms):
        own = bootstrap_intervals(fit, draws, place)
        readings.append(OtherReading(arm, BOOTSTRAP, own))
        if common is not None:
            readings.append(OtherReading(arm, COMMON, common.estimates[arm]))
        readings.append(_reading_of(smaller, arm))
        if alike is not None:
            readings.append(OtherReading(arm, EQUAL_NOISE, law_intervals(alike, place)))
        readings.append(_by_huber([point for point in points if point.arm == arm], arm))
    return readings


def _without_embeddings(
    points: Sequence[LawPoint], non_embedding: Mapping[tuple[str, str], float], pools_misfit: bool
) -> LawFit | str:
    """The joint fit with another N; why it cannot be made, in words."""
    moved: list[LawPoint] = []
    for point in points:
        n_parameters = non_embedding[point.arm, point.rung or ""]
        moved.append(replace(point, parameters=n_parameters))
    try:
        return fit_arms(list(cells_by_arm(moved).values()), pools_misfit=pools_misfit)
    except SpecError as fault:
        return str(fault)


def _with_equal_noise(fit: LawFit) -> LawFit | None:
    """The joint fit in which every run counts alike; None where it does so anyway."""
    if all((cells.relative_variance_C == 1).all() for cells in fit.arms):
        return None
    cells = [replace(one, relative_variance_C=np.ones(len(one.rungs))) for one in fit.arms]
    return fit_arms(cells, pools_misfit=fit.pools_misfit)


def _reading_of(fit: LawFit | str, arm: str) -> OtherReading:
    if isinstance(fit, str):
        return OtherReading(arm, NON_EMBEDDING, {}, fit)
    place = [cells.arm for cells in fit.arms].index(arm)
    return OtherReading(arm, NON_EMBEDDING, law_intervals(fit, place))


def _by_huber(points: Sequence[LawPoint], arm: str) -> OtherReading:
    try:
        found = huber_law(points)
    except SpecError as fault:
        return OtherReading(arm, HUBER, {}, str(fault))
    return OtherReading(arm, HUBER, dict(zip(QUANTITIES, found.log_estimates(), strict=True)))
