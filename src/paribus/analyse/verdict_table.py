"""The verdicts of a study as rows."""

from __future__ import annotations

import math

from paribus.analyse.compare import Comparison
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.control import ControlFinding
from paribus.analyse.findings import Arm, Findings, findings
from paribus.analyse.rows import Row, Table
from paribus.record import Study


def verdicts(study: Study) -> Table:
    """One row a comparison, then one a contrast: verdict, gain in bits per byte, its interval."""
    return verdict_table(findings(study))


def verdict_table(found: Findings) -> Table:
    """The verdicts of a study as rows; a contrast has a name, no arm and, outside the family, no verdict."""
    control = [] if found.control is None else [_controlled(found.control, found.baseline)]
    return Table((*map(_judged, found.arms), *map(_contrasted, found.contrasts), *control))


def _judged(arm: Arm) -> Row:
    own = arm.judgement
    row: Row = {"arm": arm.name, "against": arm.against, "contrast": None, "verdict": own.verdict.word}
    compute = None if arm.multiplier is None else arm.multiplier.said
    return {**row, **_numbers(own.comparison), "compute": compute, "tuning": arm.movable, "words": own.words}


def _contrasted(one: ContrastFinding) -> Row:
    row: Row = {"arm": None, "against": None, "contrast": one.name, "verdict": one.word}
    return {**row, **_numbers(one.comparison), "compute": None, "words": one.words}


def _controlled(control: ControlFinding, baseline: str) -> Row:
    row: Row = {"arm": control.name, "against": baseline, "contrast": None, "verdict": control.word}
    ends: Row = {"gain": -control.effect, "low": None, "high": -control.low if math.isfinite(control.low) else None}
    return {**row, **ends, "seeds": len(control.losses), "compute": None, "words": control.words}


def _numbers(made: Comparison | None) -> Row:
    if made is None:
        return {"gain": None, "low": None, "high": None, "seeds": 0}
    return {"gain": made.effect, "low": made.low, "high": made.high, "seeds": made.n}
