"""Annealed lengths: what an arm scored where the whole recipe was scaled to a share of its
steps.

Points within one schedule do not count: there the rate is still up, and the score is not what a run
of that length would have reached.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paribus.analyse.interval import moments, t_interval
from paribus.analyse.plan_rules import plan_measure
from paribus.analyse.run_answers import column_of
from paribus.analyse.run_table import ENDED_OUTCOMES, Row, select_rows
from paribus.errors import SpecError
from paribus.record.plan import PlanRecord
from paribus.spec.design import MIN_LENGTHS
from paribus.spec.measure import LIKELIHOOD, Measure
from paribus.spec.training import steps_of_share

MAX_NAMED = 3  # of runs that are not done
ONLY_FULL_LENGTH = "was trained at its full length alone"
TOO_FEW_LENGTHS = "was trained at fewer than three lengths"
NO_CURVE_DECLARED = (ONLY_FULL_LENGTH, TOO_FEW_LENGTHS)  # why no arm of a design has a curve
LEVEL = 0.95  # one-sided, of a slope above 0

Curve = Mapping[int, float]  # tokens read → score


@dataclass(frozen=True)
class LengthCurves:
    """The curves of one arm by seed, each over the same lengths; or why there are none."""

    by_seed: Mapping[int, Curve]
    shares: tuple[float, ...] = ()
    reason: str = ""
    measure: Measure = LIKELIHOOD

    @property
    def log_tokens_SK(self) -> NDArray[np.float64]:
        """ln of the tokens read, relative to each seed's full length: seeds by lengths."""
        tokens = np.array(
            [sorted(self.by_seed[seed]) for seed in sorted(self.by_seed)], dtype=np.float64
        )
        return np.log(tokens / tokens[:, -1:])

    @property
    def scores_SK(self) -> NDArray[np.float64]:
        scores = []
        for seed in sorted(self.by_seed):
            curve = self.by_seed[seed]
            scores.append([curve[tokens] for tokens in sorted(curve)])
        return np.array(scores, dtype=np.float64)

    @property
    def losses_SK(self) -> NDArray[np.float64]:
        """The scores, turned where more is better."""
        if self.measure.lower_is_better:
            return self.scores_SK
        return -self.scores_SK

    @property
    def slopes_S(self) -> NDArray[np.float64]:
        """What each seed gains for each e-fold of tokens at full length."""
        return end_slopes(self.log_tokens_SK, self.scores_SK, self.measure)


def end_slopes(log_tokens: ArrayLike, scores: ArrayLike, measure: Measure) -> NDArray[np.float64]:
    """The gain for each e-fold of tokens at full length, from the last three lengths along the
    last axis.

    With x = ln tokens and the divided differences f₃₂ = (y₃ − y₂)/(x₃ − x₂), f₂₁ likewise, and f₃₂₁
    = (f₃₂ − f₂₁)/(x₃ − x₁): the quadratic through the three points has the slope f₃₂ + f₃₂₁ (x₃ −
    x₂) at x₃. It is used where a loss is convex, f₃₂₁ > 0; else the slope of the last interval,
    f₃₂. Oriented: positive is better. A slope that is not positive is given as it is.
    """
    x, y = np.asarray(log_tokens, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    loss = y if measure.lower_is_better else -y
    last = (loss[..., -1] - loss[..., -2]) / (x[..., -1] - x[..., -2])
    before = (loss[..., -2] - loss[..., -3]) / (x[..., -2] - x[..., -3])
    bend = (last - before) / (x[..., -1] - x[..., -3])
    return -(last + np.maximum(bend, 0.0) * (x[..., -1] - x[..., -2]))


def is_improving(slopes: Sequence[float]) -> bool:
    """Is the mean slope over seeds above 0, one-sided at .05?"""
    slope_moments = moments(slopes)
    low, _ = t_interval(
        slope_moments.mean, slope_moments.standard_error, slope_moments.n - 1, 2 * LEVEL - 1
    )
    return float(low) > 0


def length_curves(
    plan: PlanRecord, table: Sequence[Row], seeds: Sequence[int]
) -> dict[str, LengthCurves]:
    """The curve of every arm over its annealed lengths; SpecError where runs of them are still
    open.
    """
    _require_finished(select_rows(table, purposes=["length"], seeds=seeds))
    return {arm: _arm_curves(plan, arm, table, seeds) for arm in plan.order}


def _require_finished(rows: Sequence[Row]) -> None:
    missing = []
    for row in rows:
        if row["outcome"] not in ENDED_OUTCOMES:
            missing.append(f"{row['arm']}, seed {row['seed']}, {row['n_steps']} steps")
    if missing:
        if len(missing) > MAX_NAMED:
            more = [f"{len(missing) - MAX_NAMED} more"]
        else:
            more = []
        run_list = "; ".join((*missing[:MAX_NAMED], *more))
        are = "is" if len(missing) == 1 else "are"
        raise SpecError(
            f"{len(missing)} of {len(rows)} runs of other lengths {are} missing or not yet run:"
            f" {run_list}; `paribus run` resumes"
        )


def _arm_curves(
    plan: PlanRecord, arm: str, table: Sequence[Row], seeds: Sequence[int]
) -> LengthCurves:
    shares: tuple[float, ...] = tuple(plan.design.lengths or ())
    if not shares:
        return LengthCurves({}, shares, ONLY_FULL_LENGTH)
    if len(shares) < MIN_LENGTHS:
        return LengthCurves({}, shares, TOO_FEW_LENGTHS)
    full = plan.arms[arm].n_steps
    steps = [steps_of_share(full, share) for share in shares]
    column = column_of(plan.design.primary.measure.table)
    rows = {}
    for row in select_rows(table, purposes=("length", "reported"), arm=arm, seeds=seeds):
        rows[row["seed"], row["n_steps"]] = row
    if rows.keys().isdisjoint(product(seeds, steps[:-1])):
        return LengthCurves({}, shares, "was not trained at other lengths")
    curves = {}
    for seed in seeds:
        if _score(rows.get((seed, full)), column) is None:
            continue
        curves[seed] = {}
        for n in steps:
            row = rows.get((seed, n))
            if row is None or _score(row, column) is None:
                return LengthCurves({}, shares, f"has no score after {n} steps in seed {seed}")
            curves[seed][row["tokens_read"]] = row[column]
    if curves and min(map(len, curves.values())) < len(steps):
        return LengthCurves({}, shares, "read as many tokens at two of its lengths")
    if len(curves) > 1:
        return LengthCurves(curves, shares, measure=plan_measure(plan))
    return LengthCurves({}, shares, "trained in too few seeds")


def _score(row: Row | None, column: str) -> float | None:
    """What a run scored that did not diverge; one that was not trained long enough has a score,
    too.
    """
    if row is None or row["outcome"] == "diverged" or not row["tokens_read"]:
        return None
    return row.get(column)
