"""The recipe of every arm at the length of its runs: what is counted in steps keeps its share of
them where arms of a design differ in length, and in a shorter run too. A sweep that is another
recipe, or hardly trains, tunes another run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from paribus.design.arms import Arm
from paribus.design.control import SCALED_NOTE
from paribus.design.quantities import PlannedArm
from paribus.design.trials import has_path
from paribus.errors import SpecError
from paribus.spec.design import Design, Table, arm_tables, is_swept
from paribus.spec.run import RunSpec
from paribus.spec.training import (
    SCALED_FIELDS,
    InverseSqrt,
    Training,
    scaled_training,
    steps_of_share,
)

# Updates of a sweep run, or half of those that its run has. With fewer, a warm-up of a fifth is
# under four steps, and the best rate is the one that comes down fastest, not that of the run.
MIN_SWEEP_STEPS = 20
SHORT_WARMUP = 2  # steps of a warm-up that a shorter run may be without


def scale_recipes(
    design: Design, arms: Sequence[Arm], ready: Sequence[PlannedArm]
) -> list[PlannedArm]:
    """Arms with warm-up and validation points in proportion to their steps, in every stage.

    A stage that has the baseline's warm-up and not its steps, for a budget or a factor has moved
    them, has as large a share of warm-up as the baseline. What an arm writes itself is for the
    steps it writes. Arms as long as the baseline stay as they are.
    """
    tables, baseline = arm_tables(design), arms[0].run
    scaled_arms = []
    for arm, own in zip(arms, ready, strict=True):
        stages = []
        for number, stage in enumerate(own.run.stages):
            written = arm.run.stages[number].training
            usual = written
            if number < len(baseline.stages):
                usual = baseline.stages[number].training
            changes = {}
            for name in SCALED_FIELDS:
                is_own = _writes(tables[arm.name], number, name)
                is_usual = getattr(written, name) == getattr(usual, name)
                recipe = usual if is_usual and not is_own else written
                scaled = scaled_training(recipe, stage.training.n_steps)
                least = min(1, getattr(recipe, name))  # a short warm-up is not none
                changes[name] = max(least, getattr(scaled, name))
            training = stage.training.model_copy(update=changes)
            stages.append(stage.model_copy(update={"training": training}))
        run = own.run.model_copy(update={"stages": tuple(stages)})
        scaled_arms.append(replace(own, run=run))
    _require_warmup_ends(scaled_arms)
    return scaled_arms


def scaled_notes(arm: Arm, run: RunSpec) -> dict[str, str]:
    """The paths of what was scaled in an arm, each with why."""
    notes = {}
    for number, (before, after) in enumerate(zip(arm.run.stages, run.stages, strict=True)):
        stage = f"stages.{number}." if arm.numbers_stages else ""
        for name in SCALED_FIELDS:
            if getattr(before.training, name) != getattr(after.training, name):
                notes[f"{stage}training.{name}"] = SCALED_NOTE
    return notes


def _writes(table: Table, number: int, field: str) -> bool:
    """Does the table of an arm say this field of the training of a stage itself?"""
    path = f"training.{field}"
    return has_path(table, path) or has_path(table, f"stages.{number}.{path}")


def _require_warmup_ends(arms: Sequence[PlannedArm]) -> None:
    """SpecError where the rate of a stage never comes to its peak."""
    problems = []
    for arm in arms:
        for number, stage in enumerate(arm.run.stages):
            problems += _warmup_faults(arm, number, stage.training)
    if problems:
        raise SpecError(problems)


def _warmup_faults(arm: PlannedArm, number: int, training: Training) -> Iterator[str]:
    if training.warmup <= training.n_steps:
        return
    stage = f"stages.{number}." if len(arm.run.stages) > 1 else ""
    yield (
        f"arms.{arm.name}: {stage}training.warmup is {training.warmup}, more than n_steps"
        f" {training.n_steps}, so that the rate never comes to its peak; use"
        f" {training.n_steps // 5} (20 % of the steps), or more steps"
    )


def require_scalable(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where a shorter run would have no warm-up and the whole one has, or a sweep has too
    few steps.
    """
    has_last_share = design.tune is not None and design.tune.last_share is not None
    if has_last_share and all(len(arm.run.stages) == 1 for arm in arms):
        raise SpecError("tune.last_share is given, but no arm has several stages; use tune.share")
    problems = list[str]()
    for arm in arms:
        for number, stage in enumerate(arm.run.stages):
            for field, share in _shares(design, stage is arm.run.last).items():
                problems += _lost_warmups(arm, number, field, share)
    problems += _short_sweeps(design, arms)
    if problems:
        raise SpecError(problems)


def _shares(design: Design, is_last: bool) -> dict[str, float]:
    """The shortest runs of a stage, as shares of its steps, by the field that asks for them."""
    shares = {"lengths": min(design.lengths or (1.0,))} if is_last else {}
    if design.tune is not None and is_swept(design):
        has_own = is_last and design.tune.last_share is not None
        name = "tune.last_share" if has_own else "tune.share"
        shares[name] = design.tune.share_of(is_last)
    return shares


def _lost_warmups(arm: PlannedArm, number: int, field: str, share: float) -> Iterator[str]:
    training = arm.run.stages[number].training
    if share >= 1 or not _loses_warmup(training, share):
        return
    stage = f"stages.{number}." if len(arm.run.stages) > 1 else ""
    given = f"{stage}training.warmup is {training.warmup}"
    if isinstance(training.schedule, InverseSqrt):
        given = f"{stage}training.schedule is inverse_sqrt and {given}"
    kept = [n / 100 for n in range(1, 101) if not _loses_warmup(training, n / 100)]
    yield (
        f"arms.{arm.name}: {given}, which leaves no warm-up in a run over {share:g} of the steps"
        f" ({field}): it would be another recipe; use a longer warm-up, or {field} of"
        f" {min(kept, default=1.0):g} or more"
    )


def fewest_sweep_steps(n_steps: int) -> int:
    """The fewest steps in which a sweep may stand for runs of so many."""
    return min(MIN_SWEEP_STEPS, ceil(n_steps / 2))


def _short_sweeps(design: Design, arms: Sequence[PlannedArm]) -> Iterator[str]:
    """The stages whose rates would be tuned in a handful of steps, each by its shortest sweep."""
    if design.tune is None or not is_swept(design):
        return
    shortest: dict[str, tuple[int, PlannedArm, int]] = {}
    shares: dict[str, float] = {}
    for arm in arms:
        for number, stage in enumerate(arm.run.stages):
            is_last = stage is arm.run.last
            field = "last_share" if is_last and design.tune.last_share is not None else "share"
            n_steps = stage.training.n_steps
            n_swept = steps_of_share(n_steps, design.tune.share_of(is_last))
            least = fewest_sweep_steps(n_steps)
            if n_swept < least:
                shares[field] = max(shares.get(field, 0.0), ceil(100 * least / n_steps) / 100)
                shortest[field] = min(
                    shortest.get(field, (n_swept, arm, number)), (n_swept, arm, number), key=_first
                )
    for field, (n_swept, arm, number) in shortest.items():
        n_steps = arm.run.stages[number].training.n_steps
        stage = f" of its stage {number}" if len(arm.run.stages) > 1 else ""
        yield (
            f"tune.{field} is {getattr(design.tune, field):g}, so that the rate of {arm.name} is"
            f" tuned in runs of {n_swept} of the {n_steps} steps{stage}, and"
            f" {fewest_sweep_steps(n_steps)} are needed: so short a run tells which rate falls"
            f" fastest, not which is best; use tune.{field} = {shares[field]:g} or more, or more"
            " n_steps"
        )


def _first(sweep: tuple[int, PlannedArm, int]) -> int:
    return sweep[0]


def _loses_warmup(training: Training, share: float) -> bool:
    """Has a run over a share of the steps no warm-up, where the whole run has one that is more than
    a step or two? A rate that comes down from the end of the warm-up needs one in any case.
    """
    shorter = scaled_training(training, steps_of_share(training.n_steps, share))
    is_inverse = isinstance(training.schedule, InverseSqrt)
    return shorter.warmup < 1 and (is_inverse or training.warmup > SHORT_WARMUP)
