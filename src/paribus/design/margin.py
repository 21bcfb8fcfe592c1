"""Will the curves of a plan have the points that a margin in compute is priced from?"""

from __future__ import annotations

from collections.abc import Sequence

from paribus.analyse import PointsShort, points_short
from paribus.design.quantities import Planned
from paribus.spec.design import Design, pairs_of
from paribus.spec.objectives import LastToken, Objective, Seq2Seq, parts


def margin_warnings(design: Design, arms: Sequence[Planned]) -> tuple[str, ...]:
    """A sentence for each curve that will be too short, the baseline's first; none without a margin in compute."""
    if not isinstance(design.primary.margin, str):
        return ()
    judged_against = {design.baseline, *(against for _, against in pairs_of(design))}
    own = [arm for arm in arms if arm.name in judged_against]
    return tuple(_sentence(arm, short, design) for arm in own if (short := _short(arm)) is not None)


def _short(arm: Planned) -> PointsShort | None:
    stage = arm.run.stages[-1]
    return points_short(arm.n_steps, stage.training.valid_every, _is_even(stage.objective))


def _is_even(objective: Objective) -> bool:
    """Does every step read as many tokens as any other?"""
    own = parts(objective)
    return len(own) == 1 and not isinstance(own[0].objective, LastToken | Seq2Seq)


def _sentence(arm: Planned, short: PointsShort, design: Design) -> str:
    what = f"the margin of {design.primary.margin} cannot be priced, so nothing will be called equivalent"
    if arm.name != design.baseline:
        what = f"what a gain over {arm.name} is worth in compute cannot be said"
    points = "point" if short.n_points == 1 else "points"
    count = f"{short.n_points} validation {points} in its last third, and {short.n_needed} are needed"
    return f"{what}: the learning curve of {arm.name} will have {count}; {_advice(arm, short)}"


def _advice(arm: Planned, short: PointsShort) -> str:
    training = arm.run.stages[-1].training
    if short.valid_every is None:
        return f"{arm.n_steps} steps are too few: use {short.n_steps} or more, and training.valid_every = 1"
    return (
        f"use training.valid_every = {short.valid_every}, which is {training.valid_every} for {arm.n_steps} steps now, "
        f"or a margin in bits per byte"
    )
