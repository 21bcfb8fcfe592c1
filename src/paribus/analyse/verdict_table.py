"""The verdicts of a study as rows."""

from __future__ import annotations

import math

from paribus.analyse.compare import Comparison
from paribus.analyse.contrasts import ContrastFinding
from paribus.analyse.findings import ArmFinding, Findings
from paribus.analyse.manipulation import NOT_SHOWN, CheckFinding
from paribus.analyse.positive_control import ControlFinding
from paribus.analyse.run_table import Row, RowTable
from paribus.analyse.study_findings import study_findings
from paribus.record import Study
from paribus.record.plan import PlanRecord


def study_verdicts(study: Study) -> RowTable:
    """One row a comparison, then one a contrast: verdict, gain in the measure's unit, interval."""
    return verdict_table(study_findings(study))


def verdict_table(findings: Findings) -> RowTable:
    """The verdicts of a study as rows; a contrast has a name, no arm and, outside the family,
    no verdict.
    """
    if findings.control is None:
        control = []
    else:
        control = [_control_row(findings.control, findings.baseline)]
    rows = (
        *map(_arm_row, findings.arms),
        *map(_contrast_row, findings.contrasts),
        *control,
        *map(_check_row, findings.checks),
    )
    if not findings.plan.judged:
        return RowTable(rows)
    return RowTable(tuple([{**row, **_difference_columns(row, findings.plan)} for row in rows]))


def _difference_columns(row: Row, plan: PlanRecord) -> Row:
    """What a comparison or a contrast differs in, and why it is judged if that is several factors
    at once.
    """
    own = plan.difference_of(row["arm"], row["against"], contrast=row["contrast"])
    if own is None:  # the control or a check, which are not judged
        return {"differs_in": None, "kind": None, "compound": None, "allowed": None}
    return {
        "differs_in": ", ".join(own.factors),
        "kind": own.kind,
        "compound": own.reason,
        "allowed": ", ".join(own.allowed) or None,
    }


def _arm_row(arm: ArmFinding) -> Row:
    own = arm.judgement
    row: Row = {
        "arm": arm.name,
        "against": arm.against,
        "contrast": None,
        "verdict": own.verdict.label,
    }
    if arm.multiplier is None:
        compute = None
    else:
        compute = arm.multiplier.factor_in_range
    return {
        **row,
        **_number_columns(own.comparison),
        "compute": compute,
        "tuning": arm.tuning_uncertainty,
        "words": own.description,
    }


def _contrast_row(contrast: ContrastFinding) -> Row:
    row: Row = {"arm": None, "against": None, "contrast": contrast.name, "verdict": contrast.word}
    return {
        **row,
        **_number_columns(contrast.comparison),
        "compute": None,
        "words": contrast.description,
    }


def _control_row(control: ControlFinding, baseline: str) -> Row:
    row: Row = {"arm": control.name, "against": baseline, "contrast": None, "verdict": control.word}
    ends: Row = {
        "gain": -control.effect,
        "low": None,
        "high": -control.low if math.isfinite(control.low) else None,
    }
    return {
        **row,
        **ends,
        "seeds": len(control.losses),
        "compute": None,
        "words": control.description,
    }


def _check_row(check: CheckFinding) -> Row:
    """What must hold, under a column that only studies with checks have."""
    row: Row = {"arm": None, "against": None, "contrast": None, "must": check.that}
    return {
        **row,
        "verdict": "shown" if check.is_shown else NOT_SHOWN,
        "gain": check.effect,
        "low": check.low,
        "high": None,
        "seeds": check.n_seeds,
        "compute": None,
        "words": f"{check.description}.",
    }


def _number_columns(comparison: Comparison | None) -> Row:
    if comparison is None:
        return {"gain": None, "low": None, "high": None, "seeds": 0}
    return {
        "gain": comparison.effect,
        "low": comparison.low,
        "high": comparison.high,
        "seeds": comparison.n,
    }
