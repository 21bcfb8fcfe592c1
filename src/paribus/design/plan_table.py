"""A plan as it is written: a table of plain values, and the same table through its types."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from paribus.design.ladder import Rung
from paribus.design.plan import Plan
from paribus.design.quantities import PlannedArm
from paribus.record import ControlLine
from paribus.record.disk import json_bytes
from paribus.record.file_names import PLAN_FILE
from paribus.record.plan import EDITION, PlanRecord, parse_plan
from paribus.record.plan_formats import PLAN_FORMAT
from paribus.spec.design import declared_paths


def plan_record(plan: Plan) -> PlanRecord:
    """All that a report needs of a plan, as it is read again from its file."""
    return parse_plan(json.loads(json_bytes(described(plan))), Path(PLAN_FILE))


def described(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, in the present format."""
    design, table = plan.design, dict[str, Any]()
    if plan.series is not None:
        table["series"] = plan.series.table
    if plan.items:
        table["items"] = dict(plan.items)
    if plan.kept_rates:
        table["rates"] = dict(plan.kept_rates)
    if plan.rungs:
        table["rungs"] = [_rung_table(rung) for rung in plan.rungs]
    return table | {
        "format": PLAN_FORMAT,
        "edition": EDITION,
        "name": plan.name,
        "scale": plan.scale,
        "question": design.question,
        "reference": design.reference,
        "fingerprint": plan.fingerprint,
        "design_fingerprint": plan.design_fingerprint,
        "design": _written_design(plan),
        "declared": list(declared_paths(design)),
        "order": [arm.name for arm in plan.arms],
        "arms": {arm.name: _arm_table(arm) for arm in plan.arms},
        "control": [_line_table(line) for line in plan.control_lines],
        "judged": list(map(asdict, plan.judged)),
        "environment": plan.environment,
        "rule": plan.rule,
    }


def _arm_table(arm: PlannedArm) -> dict[str, Any]:
    table = {
        "levels": dict(arm.levels),
        "run": arm.run.model_dump(mode="json"),
        "price": asdict(arm.price),
        "work": asdict(arm.step_cost),
        "text": arm.dataset.fingerprint,
    }
    if len(arm.texts) > 1:
        table["earlier_work"] = list(map(asdict, arm.step_costs[:-1]))
        table["earlier_texts"] = [text.fingerprint for text in arm.texts[:-1]]
    return table


def _rung_table(rung: Rung) -> dict[str, Any]:
    """A rung: every arm at its size, and how many tokens its runs read."""
    return {
        "size": rung.size,
        "tokens": list(rung.tokens),
        "is_predicted": rung.is_predicted,
        "arms": {arm.name: _arm_table(arm) for arm in rung.arms},
    }


def _line_table(line: ControlLine) -> dict[str, Any]:
    return {
        "path": line.path,
        "mark": line.mark,
        "values": dict(line.values),
        "note": line.note,
        "allowed": line.allowed,
    }


def _written_design(plan: Plan) -> dict[str, Any]:
    """The design as plain values; without what is newer than the first plans it is what it was."""
    missing = set[str]()
    for name in ("contrasts", "lengths", "variance"):
        if getattr(plan.design, name) is None:
            missing.add(name)
    return plan.design.model_dump(mode="json", exclude=missing)
