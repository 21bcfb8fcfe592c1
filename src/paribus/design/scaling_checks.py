"""Can the recipe of every arm be scaled to a shorter run? A sweep that is another recipe tunes
another run.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from paribus.design.quantities import PlannedArm
from paribus.errors import SpecError
from paribus.spec.design import Design
from paribus.spec.training import InverseSqrt, scaled_training, steps_of_share


def require_scalable(design: Design, arms: Sequence[PlannedArm]) -> None:
    """SpecError where a schedule is counted from the end of a warm-up that a shorter run would
    not have.
    """
    shares = {"lengths": min(design.lengths or (1.0,))}
    if design.tune is not None:
        if design.tune.last_share is not None and all(len(arm.run.stages) == 1 for arm in arms):
            raise SpecError(
                "tune.last_share is given, but no arm has several stages; use tune.share"
            )
        name = "tune.share" if design.tune.last_share is None else "tune.last_share"
        shares[name] = design.tune.share_of(is_last=True)
    problems = []
    for (field, share), arm in product(shares.items(), arms):
        if share < 1 and _loses_warmup(arm, share):
            warmup = arm.run.last.training.warmup
            problems.append(
                f"arms.{arm.name}: training.schedule is inverse_sqrt and training.warmup is"
                f" {warmup}, which leaves no warm-up in a run over {share:g} of the steps"
                f" ({field}): it would be another recipe; use a longer warm-up, or {field} of 1"
            )
    if problems:
        raise SpecError(problems)


def _loses_warmup(arm: PlannedArm, share: float) -> bool:
    training = arm.run.last.training
    shorter = scaled_training(training, steps_of_share(arm.n_steps, share))
    return isinstance(training.schedule, InverseSqrt) and shorter.warmup < 1
