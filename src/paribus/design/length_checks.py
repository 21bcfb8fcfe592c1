"""Can the arms that others are judged against be trained at each of a design's lengths?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError
from paribus.spec.design import Design, length_arms
from paribus.spec.training import scaled_training, steps_of_share

MIN_STEPS = 3  # of the shortest length: a schedule rises, stays and falls


def require_trainable_lengths(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where a length has too few steps, no more than another, or a warm-up as long as
    itself.
    """
    names, problems = length_arms(design), list[str]()
    for arm in arms:
        if arm.name in names:
            problems += _faults(design, arm)
    if problems:
        raise SpecError(problems)


def _faults(design: Design, arm: PlannedArm) -> Iterator[str]:
    training, before = arm.run.last.training, 0
    for share in design.lengths or ():
        n_steps = steps_of_share(arm.n_steps, share)
        what = f"lengths: {share:g} of the {arm.n_steps} steps of {arm.name} is {n_steps}"
        warmup = scaled_training(training, n_steps).warmup
        if n_steps < MIN_STEPS or round(arm.n_steps * share) < MIN_STEPS:
            yield f"{what}, and {MIN_STEPS} are needed; use more n_steps, or longer lengths"
        elif n_steps <= before:
            yield (
                f"{what}, as many as at a shorter length; use more n_steps, or lengths further"
                " apart"
            )
        elif warmup >= n_steps:
            yield f"{what}, and its warm-up takes {warmup} of them; use a shorter training.warmup"
        before = n_steps
