"""Can arms be trained: each in its micro-batches, and those that others are judged against at each
of a design's lengths? And do these say what the margin asks?
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError
from paribus.spec.design import MIN_LENGTHS, Design, compute_margin, length_arms
from paribus.spec.stages import stage_architectures
from paribus.spec.training import scaled_training, steps_of_share
from paribus.train.learner import require_divisible

MIN_STEPS = 3  # of the shortest length: a schedule rises, stays and falls
MOST_TIMES = 2.0  # the training that a margin may ask for: beyond it no slope is continued


def require_trainable_lengths(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where a length has too few steps, no more than another, or a warm-up as long as
    itself; or where the margin is worth more training than the lengths are apart.
    """
    names, problems = length_arms(design), list(_margin_faults(design))
    for arm in arms:
        if arm.name in names:
            problems += _faults(design, arm)
    if problems:
        raise SpecError(problems)


def require_trainable_batches(arms: Sequence[PlannedArm]) -> None:
    """SpecError where a stage of an arm cannot be learnt in its micro-batches."""
    problems = []
    for arm in arms:
        for stage, architecture in zip(arm.run.stages, stage_architectures(arm.run), strict=True):
            try:
                require_divisible(architecture, stage.training)
            except SpecError as fault:
                problems += [f"arms.{arm.name}: {problem}" for problem in fault.problems]
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))


def _margin_faults(design: Design) -> Iterator[str]:
    """A margin in compute is the slope over the last three lengths, continued past the longest: as
    far as they are apart at most.
    """
    margin, lengths = design.primary.margin, list(design.lengths or ())
    share = compute_margin(margin) if isinstance(margin, str) else None
    if share is None or len(lengths) < MIN_LENGTHS:
        return
    span = 1 / lengths[-MIN_LENGTHS]
    most = min(span, MOST_TIMES) - 1
    if share <= most:
        return
    own = f"lengths from {lengths[-MIN_LENGTHS]:g} to 1 measure what {span - 1:.0%} more gains"
    reason = f"{own}, and a slope is continued no further"
    if most < span - 1:
        reason = f"a slope is continued to {MOST_TIMES:g} times the training at most"
    cure = f"{int(100 * most)} % compute"
    yield (
        f"primary.margin is {margin!r}, what {1 + share:g} times the training would gain, but"
        f" {reason}; use {cure!r} or less, or lengths = [0.25, 0.5, 1]"
    )


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
