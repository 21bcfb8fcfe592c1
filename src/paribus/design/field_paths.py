"""Paths that a design names: each must be a field of some arm's run, or a quantity of the
control table.
"""

from __future__ import annotations

from collections.abc import Sequence

from paribus.design.arms import Arm
from paribus.design.control import is_inside
from paribus.design.quantities import MACHINE_QUANTITIES, QUANTITIES, full_quantity_name
from paribus.errors import SpecError, describe_first
from paribus.record import ControlLine, Mark
from paribus.record.control_table import CUT_CONTEXTS
from paribus.spec.design import MATCH_PATH, Design
from paribus.spec.spelling import path_advice


def require_known_paths(design: Design, arms: Sequence[Arm]) -> None:
    """SpecError where a factor or an allowance names nothing that could differ.

    What the levels of a factorial write is read with each arm, and refused there.
    """
    fields = _fields(arms)
    if any(arm.match is not None for arm in arms):
        fields[MATCH_PATH] = None
    quantities = (*QUANTITIES, *MACHINE_QUANTITIES, CUT_CONTEXTS)

    def say_factor(path: str) -> str:
        advice = path_advice(path, fields)
        return (
            f"factor {path!r} is a field of no arm's run; {advice}name a field, or a table of"
            " fields"
        )

    def say_allowance(path: str) -> str:
        return (
            f"allow has {path!r}, a field of no arm's run and no quantity of the control table; "
            f"{path_advice(path, (*fields, *quantities))}name what differs as the table does"
        )

    factors = [path for path in design.factor if path not in fields]
    allowances = []
    for path in design.allow:
        is_quantity = full_quantity_name(path) in quantities or is_inside(path, CUT_CONTEXTS)
        if path not in fields and not is_quantity:
            allowances.append(path)
    problems = [
        *describe_first(factors, say_factor, "factors that are no field"),
        *describe_first(allowances, say_allowance, "allowances of nothing that could differ"),
    ]
    if problems:
        raise SpecError(problems)


def unused_allowances(design: Design, lines: Sequence[ControlLine]) -> tuple[str, ...]:
    """The allowances under which nothing is a confound: they let nothing pass."""
    confounds = [line.path for line in lines if line.mark == Mark.CONFOUND]
    unused_paths = []
    for path in design.allow:
        place = full_quantity_name(path)
        if not any(is_inside(confound, place) for confound in confounds):
            unused_paths.append(path)
    return tuple(unused_paths)


def _fields(arms: Sequence[Arm]) -> dict[str, None]:
    """Every field of any arm, and every table of them."""
    places: dict[str, None] = {}
    for arm in arms:
        for path in arm.leaves:
            names = path.split(".")
            for depth in range(1, len(names) + 1):
                places[".".join(names[:depth])] = None
    return places
