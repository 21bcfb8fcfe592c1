"""For a paper: by which size arms were matched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paribus.report.numbers import join_words, quote_arm
from paribus.report.report_data import ReportData

NOTHING = "nothing"


def match_sentences(report: ReportData) -> Iterator[str]:
    """By which size the design matches its arms, and which arms have a match of their own."""
    common = _describe_match(report.plan.design.table.get("match"))
    arms_by_match: dict[str, list[str]] = {}
    for arm in report.order:
        own = _own_match(report, arm)
        if own is not None and _describe_match(own) != common:
            arms_by_match.setdefault(_describe_match(own), []).append(quote_arm(arm))
    clauses: list[str] = []
    if common:
        clauses.append(f"Arms are matched by {common}")
    for match, arms in arms_by_match.items():
        verb = "is" if len(arms) == 1 else "are"
        how = f"matched by {match}" if match else "not matched"
        clauses.append(f"{join_words(arms)} {verb} {how}")
    if clauses:
        yield f"{'; '.join(clauses)}."


def _own_match(report: ReportData, arm: str) -> Any:
    """The match that an arm, or a level of it, is written with; None where there is none."""
    design = report.plan.design.table
    table = design.get("arms", {}).get(arm)
    own = table.get("match") if isinstance(table, Mapping) else None
    for factor, level in report.plan.arms[arm].levels.items():
        levels = design.get("factors", {}).get(factor, {}).get("levels")
        if isinstance(levels, Mapping):
            own = levels.get(level, {}).get("match", own)
    return own


def _describe_match(match: Any) -> str:
    """The size of a match, and to how many times that of the baseline; nothing where there is
    none.
    """
    if match is None:
        return ""
    by = match if isinstance(match, str) else match["by"]
    if by == NOTHING:
        return ""
    if isinstance(by, list):
        by = " and ".join(by)
    words = by.replace("_", " ").replace("flops", "FLOPs")
    times = 1.0 if isinstance(match, str) else match.get("times", 1.0)
    if times == 1:
        return words
    return f"{words}, to {times:g} times those of the baseline"
