"""Learning rates by role as lines of the control table, where an initialisation sets them."""

from __future__ import annotations

from collections.abc import Mapping

from paribus.design.trials import ABSENT
from paribus.record import ControlLine, Mark
from paribus.spec import resolve
from paribus.spec.mup import BEYOND_THE_PAPER, mup_note, uses_mup
from paribus.spec.role_rates import adam_eps_factor, role_rate_shares
from paribus.spec.run import RunSpec

FOLLOWS_INIT = "follows from architecture.init and the widths"
REACH_PATH = "reach of mup"  # how far the paper goes
WITHIN_THE_PAPER = "within the paper"


def role_rate_lines(runs: Mapping[str, RunSpec]) -> tuple[ControlLine, ...]:
    """The rate of each role as a share of the written one, AdamW's eps, and whether an arm is
    beyond the paper of the parametrisation; nothing where no arm has it.
    """
    if not any(uses_mup(run.architecture) for run in runs.values()):
        return ()
    columns = {arm: _arm_values(run) for arm, run in runs.items()}
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


def _arm_values(run: RunSpec) -> dict[str, str]:
    spec = resolve(run.last_architecture)
    values: dict[str, str] = {}
    for role, shares in role_rate_shares(spec).items():
        values[f"rate of {role} weights"] = ", ".join(f"× {share:g}" for share in shares)
    values["eps of adamw"] = f"× {adam_eps_factor(spec):g}"
    if uses_mup(run.architecture):
        is_beyond = mup_note(run.architecture) is not None
        values[REACH_PATH] = BEYOND_THE_PAPER if is_beyond else WITHIN_THE_PAPER
    return values
