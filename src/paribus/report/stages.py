"""What the stages of a run are called in sentences."""

from __future__ import annotations

from collections import Counter

from paribus.report.report_data import ReportData


def stage_names(report: ReportData, arm: str | None = None) -> list[str]:
    """The stages of an arm by their kinds, or of the arm with the most; with their places where a
    kind is there twice.
    """
    if arm is None:
        arm = max(report.order, key=lambda name: len(report.plan.arms[name].run.stages))
    stages = report.plan.arms[arm].run.table["stages"]
    kinds = [stage.get("kind", "train") for stage in stages]
    counts = Counter(kinds)
    names: list[str] = []
    for number, kind in enumerate(kinds):
        if counts[kind] == 1:
            names.append(kind)
        else:
            names.append(f"stages.{number} ({kind})")
    return names
