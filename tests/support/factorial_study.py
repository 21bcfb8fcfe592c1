"""The study made by hand as two factors of two levels."""

from pathlib import Path
from typing import Any

from handmade_study import make_study

from paribus.record import Study

LEVELS = {
    "causal": ("causal", "near"),
    "prefix": ("prefix", "near"),
    "causal+far": ("causal", "far"),
    "prefix+far": ("prefix", "far"),
}
FACTORIAL_GAINS = {
    "causal": 0.0,
    "prefix": 0.1,
    "causal+far": 0.05,
    "prefix+far": 0.4,
}  # an interaction of 0.25
# far sight helps one mask and harms the other
OPPOSITE_GAINS = {
    **FACTORIAL_GAINS,
    "causal+far": -0.05,
}
INTERACTION = "interaction of mask and reach"
MAIN_EFFECTS = ("mask from causal to prefix", "reach from near to far")


def make_factorial_study(
    root: Path,
    *,
    failed: tuple[tuple[str, int], ...] = (),
    gains: dict[str, float] | None = None,
    **design: Any,
) -> Study:
    """Four arms, masks by reaches, with fields of the design as they are to be."""
    study = make_study(root, gains=gains or FACTORIAL_GAINS, failed=failed)
    plan = study.read_plan()
    for arm, levels in LEVELS.items():
        plan["arms"][arm]["levels"] = dict(zip(("mask", "reach"), levels, strict=True))
    plan["design"] |= {"control": None, **design}
    study.write_plan(plan)
    return study
