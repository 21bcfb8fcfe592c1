"""The study made by hand as two factors of two levels."""

from pathlib import Path
from typing import Any

from paribus.record import Study
from small_study import made

LEVELS = {
    "causal": ("causal", "near"), "prefix": ("prefix", "near"), "causal+far": ("causal", "far"),
    "prefix+far": ("prefix", "far"),
}  # fmt: skip
CROSSED = {"causal": 0.0, "prefix": 0.1, "causal+far": 0.05, "prefix+far": 0.4}  # an interaction of 0.25
TURNED = {**CROSSED, "causal+far": -0.05}  # far sight helps one mask and harms the other
INTERACTION = "interaction of mask and reach"
MAIN = ("mask from causal to prefix", "reach from near to far")


def crossed(
    root: Path, *, failed: tuple[tuple[str, int], ...] = (), gains: dict[str, float] | None = None, **design: Any
) -> Study:
    """Four arms, masks by reaches, with fields of the design as they are to be."""
    study = made(root, gains=gains or CROSSED, failed=failed)
    plan = study.plan()
    for arm, levels in LEVELS.items():
        plan["arms"][arm]["levels"] = dict(zip(("mask", "reach"), levels, strict=True))
    plan["design"] |= {"control": None, **design}
    study.write_plan(plan)
    return study
