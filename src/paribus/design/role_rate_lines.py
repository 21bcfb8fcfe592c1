"""Learning rates by role as lines of the control table, where an initialisation sets them."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.design.trials import ABSENT
from paribus.record import ControlLine, Mark
from paribus.spec.mup import uses_mup
from paribus.spec.role_rates import describe_role_rates
from paribus.spec.run import RunSpec

FOLLOWS_INIT = "follows from architecture.init and the widths"


def role_rate_lines(runs: Mapping[str, RunSpec]) -> tuple[ControlLine, ...]:
    """The rate of each role as a share of the written one, AdamW's eps, and whether an arm is
    beyond the paper of the parametrisation; nothing where no arm has it.
    """
    if not any(uses_mup(run.architecture) for run in runs.values()):
        return ()
    columns = {arm: describe_role_rates(run.last_architecture) for arm, run in runs.items()}
    names: dict[str, None] = {}
    for column in columns.values():
        names |= dict.fromkeys(column)
    lines: list[ControlLine] = []
    for name in names:
        values = {arm: column.get(name, ABSENT) for arm, column in columns.items()}
        if len(set(values.values())) == 1:
            lines.append(ControlLine(path=name, mark=Mark.EQUAL, values=values))
        else:
            line = ControlLine(path=name, mark=Mark.FOLLOWS, values=values, note=FOLLOWS_INIT)
            lines.append(line)
    return tuple(lines)
