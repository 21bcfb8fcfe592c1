"""Controls that are taught wrong targets on purpose. They are not tuned."""

from __future__ import annotations

from collections.abc import Sequence

from paribus.design.quantities import PlannedArm
from paribus.spec.design import Design, control_arm
from paribus.spec.objectives import Preference
from paribus.spec.run import Stage


def wrongly_taught_arms(design: Design, arms: Sequence[PlannedArm]) -> tuple[str, ...]:
    """The control, if its last stage learns shuffled targets or swapped pairs and the baseline's
    does not.

    A sweep would give it the rate at which it learns least, so it takes that of the baseline.
    """
    by_name = {arm.name: arm for arm in arms}
    control, baseline = by_name.get(control_arm(design) or ""), by_name.get(design.baseline)
    if control is None or baseline is None or not _is_taught_wrongly(control.run.last):
        return ()
    if _is_taught_wrongly(baseline.run.last):
        return ()
    return (control.name,)


def _is_taught_wrongly(stage: Stage) -> bool:
    objective = stage.objective
    is_swapped = isinstance(objective, Preference) and objective.swapped
    return is_swapped or stage.corpus.shuffled_targets
