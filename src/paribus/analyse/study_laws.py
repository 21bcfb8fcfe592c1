"""The laws of a study with a ladder: one for each arm, what sets their exponents apart, and what
they say of a larger run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from paribus.analyse.law_sensitivity import OtherReading, other_readings
from paribus.analyse.laws.equal_loss import (
    EqualLoss,
    FittedLoss,
    LawCrossing,
    compute_path,
    equal_loss_curve,
    find_crossing,
    fitted_curve,
)
from paribus.analyse.laws.exponents import ExponentVerdict, compare_exponents
from paribus.analyse.laws.fit import LawEstimate, LawFit, fit_arms, law_intervals, one_floor_p
from paribus.analyse.laws.points import LawPoint, cells_by_arm, noise_of_rungs
from paribus.analyse.laws.prediction import REFUSAL, LawPrediction, predict_loss
from paribus.analyse.laws.rung_noise import RungNoise
from paribus.analyse.laws.shared_misfit import SharedMisfit, shared_misfit
from paribus.analyse.run_table import Row, column_of, select_rows
from paribus.analyse.scoreless_runs import scoreless_runs
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord, RungRecord
from paribus.spec.ladder import EXPONENT_MARGIN

Pair = tuple[str, str]
POOLED_MISFIT_EDITION = 3


@dataclass(frozen=True)
class LawMultiplier:
    """How much compute an arm needs for the loss of another, over compute."""

    arm: str
    against: str
    curve: tuple[EqualLoss, ...]
    crossing: LawCrossing


@dataclass(frozen=True, eq=False)
class StudyLaws:
    """One E for all arms, and the rest of the law for each of them."""

    fit: LawFit
    estimates: Mapping[str, Mapping[str, LawEstimate]]  # by arm, then E, A, B, alpha, beta
    verdicts: tuple[ExponentVerdict, ...]
    multipliers: tuple[LawMultiplier, ...]
    curves: Mapping[str, tuple[FittedLoss, ...]]  # by arm: its law along its path
    one_floor_p: float | None  # of the F test that all arms have one E; None for one arm alone
    rung_noise: RungNoise
    shared_misfit: SharedMisfit | None  # None where arms do not miss their laws together

    @property
    def arms(self) -> list[str]:
        return [cells.arm for cells in self.fit.arms]


def study_laws(plan: PlanRecord, rows: Sequence[Row]) -> StudyLaws | None:
    """The laws of a study; None where it has no ladder. SpecError where too few of its runs have
    come to an end.
    """
    if not plan.rungs:
        return None
    cells = cells_by_arm(ladder_points(plan, rows))
    arms, names, pools = list(cells.values()), list(cells), pools_misfit(plan)
    fit = fit_arms(arms, pools_misfit=pools)
    floor_p = None
    if len(names) > 1:
        separate = fit_arms(arms, shared_floor=False, pools_misfit=pools)
        floor_p = float(one_floor_p(fit, separate)[0])
    pairs = [pair for pair in judged_pairs(plan) if set(pair) <= set(names)]
    ladder = plan.design.ladder
    margin = (ladder and ladder.exponent_margin) or EXPONENT_MARGIN
    paths = {name: compute_path(_path(plan, name)) for name in names}
    multipliers = []
    for arm, against in pairs:
        places = names.index(arm), names.index(against)
        curve = equal_loss_curve(fit, places, (paths[arm], paths[against]))
        multipliers.append(LawMultiplier(arm, against, tuple(curve), find_crossing(curve)))
    return StudyLaws(
        fit=fit,
        estimates={name: law_intervals(fit, place) for place, name in enumerate(names)},
        verdicts=tuple(compare_exponents(cells, pairs, margin, pools)) if pairs else (),
        multipliers=tuple(multipliers),
        curves={
            name: tuple(fitted_curve(fit, place, paths[name])) for place, name in enumerate(names)
        },
        one_floor_p=floor_p,
        rung_noise=noise_of_rungs(arms)[1],
        shared_misfit=shared_misfit(cells, pairs, margin, pools),
    )


def study_readings(plan: PlanRecord, rows: Sequence[Row], laws: StudyLaws) -> list[OtherReading]:
    """The laws of a study under other readings, arm by arm."""
    non_embedding: dict[tuple[str, str], float] = {}
    points = ladder_points(plan, rows)
    for point in points:
        assert point.rung is not None
        size = int(point.rung.split(":")[0])
        price = _rung(plan, size).arms[point.arm].price
        non_embedding[point.arm, point.rung] = price.non_embedding_parameters
    return other_readings(laws.fit, points, non_embedding, laws.shared_misfit)


def ladder_points(
    plan: PlanRecord, rows: Sequence[Row], purposes: Sequence[str] = ("ladder",)
) -> list[LawPoint]:
    """Every run of these purposes that came to its end with a score; laws are fitted to those of
    the ladder alone.
    """
    column = column_of(plan.design.primary.measure.table)
    points: list[LawPoint] = []
    for row in select_rows(rows, purposes=purposes):
        if row["outcome"] != "finished" or row.get(column) is None:
            continue
        points.append(
            LawPoint(
                parameters=row["parameters"],
                tokens=row["planned_tokens"],
                loss=row[column],
                arm=row["arm"],
                seed=row["seed"],
                rung=f"{row['size']}:{run_duration(plan, row)}",
            )
        )
    return points


def ladder_fit(plan: PlanRecord, rows: Sequence[Row]) -> LawFit:
    """The laws of all arms with one E. SpecError where too few runs have come to an end."""
    cells = cells_by_arm(ladder_points(plan, rows))
    return fit_arms(list(cells.values()), pools_misfit=pools_misfit(plan))


def pools_misfit(plan: PlanRecord) -> bool:
    """Does what arms show together of cells off their laws count for each of them? Plans that are
    older were judged, and predicted by, what each arm shows by itself.
    """
    return plan.edition >= POOLED_MISFIT_EDITION


def predict_rung(plan: PlanRecord, fit: LawFit, n_seeds: int) -> list[LawPrediction]:
    """What the laws say of the rung that is predicted, arm by arm; nothing where there is none."""
    predictions: list[LawPrediction] = []
    for rung in plan.rungs:
        if not rung.is_predicted:
            continue
        for place, cells in enumerate(fit.arms):
            price = rung.arms[cells.arm].price
            predictions.append(predict_loss(fit, price.parameters, rung.tokens[0], place, n_seeds))
    return predictions


def prediction_tables(plan: PlanRecord, rows: Sequence[Row], n_seeds: int) -> list[dict[str, Any]]:
    """What is kept of the rung that is predicted: a table for each arm, or one that says why no
    law can be fitted.
    """
    try:
        fit = ladder_fit(plan, rows)
    except SpecError as fault:
        reasons = filter(None, (scoreless_runs(plan, rows).description, str(fault)))
        return [{REFUSAL: f"no law could be fitted: {'; '.join(reasons)}"}]
    return [one.table for one in predict_rung(plan, fit, n_seeds)]


def run_duration(plan: PlanRecord, row: Row) -> int:
    """Which of the durations of its rung a run has."""
    rung = _rung(plan, row["size"])
    distances = [abs(row["planned_tokens"] - n_tokens) for n_tokens in rung.tokens]
    return distances.index(min(distances))


def longest_duration(plan: PlanRecord) -> int:
    """Which duration is the longest that all sizes have."""
    place = min(len(rung.tokens) for rung in plan.rungs if not rung.is_predicted) - 1
    if place < 0:
        raise SpecError("ladder: a size has no duration; raise ladder.max_tokens")
    return place


def _rung(plan: PlanRecord, size: int) -> RungRecord:
    return next(rung for rung in plan.rungs if rung.size == size)


def judged_pairs(plan: PlanRecord) -> list[Pair]:
    """The pairs that the design judges: those it names, or each arm against the baseline."""
    if plan.design.comparisons is not None:
        return [(arm, against) for arm, against in plan.design.comparisons]
    others = [name for name in plan.order if name not in (plan.baseline, plan.design.control_arm)]
    return [(name, plan.baseline) for name in others]


def _path(plan: PlanRecord, arm: str) -> list[tuple[float, float, float]]:
    """Compute, parameters and tokens of an arm at each size, at the longest duration that all
    sizes have.
    """
    place = longest_duration(plan)
    path: list[tuple[float, float, float]] = []
    for rung in plan.rungs:
        if rung.is_predicted:
            continue
        own, n_tokens = rung.arms[arm], rung.tokens[place]
        flops = own.work.training_flops * n_tokens / own.work.tokens_read
        path.append((flops, float(own.price.parameters), float(n_tokens)))
    return path
