"""The items on which an arm gains and loses most, with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paribus.analyse import ExtremeItem, extreme_items
from paribus.analyse.findings import ArmFinding
from paribus.record.samples import ItemText
from paribus.report.numbers import format_plain, format_signed
from paribus.report.report_data import ReportData

N_EXAMPLES = 5
LEAST_LOSS, LEAST_GAIN = "where it loses least", "where it gains least"
NO_TEXT = ItemText("", "")  # of an item whose text is not kept


@dataclass(frozen=True)
class ItemExample:
    """One item as a reader sees it."""

    item: str
    context: str
    target: str
    gain: str
    scores: str


@dataclass(frozen=True)
class ItemExamples:
    """An arm's best and worst items."""

    arm: str
    against: str
    best: tuple[ItemExample, ...]
    worst: tuple[ItemExample, ...]
    best_title: str
    worst_title: str


def item_examples(report: ReportData) -> list[ItemExamples]:
    """Of every comparison; items whose text is not kept are shown by name."""
    answers = report.findings.evaluations
    examples = []
    for arm in report.findings.arms:
        best, worst = extreme_items(
            answers[arm.against], answers[arm.name], N_EXAMPLES, report.measure
        )
        if best:
            examples.append(_arm_examples(arm, best, worst, report))
    return examples


def _arm_examples(
    arm: ArmFinding, best: Sequence[ExtremeItem], worst: Sequence[ExtremeItem], report: ReportData
) -> ItemExamples:
    best_title, worst_title = _titles([one.gain for one in best], [one.gain for one in worst])
    return ItemExamples(
        arm=arm.name,
        against=arm.against,
        best=_make_examples(best, report),
        worst=_make_examples(worst, report),
        best_title=best_title,
        worst_title=worst_title,
    )


def _titles(best: Sequence[float], worst: Sequence[float]) -> tuple[str, str]:
    """What the two ends are, of an arm that may gain nowhere or lose nowhere."""
    gains, loses = max(best) > 0, min(worst) < 0
    if not gains:
        first = LEAST_LOSS
    elif min(best) < 0:
        first = "where it gains most, or loses least"
    else:
        first = "where it gains most"
    if not loses:
        last = LEAST_GAIN
    elif max(worst) > 0:
        last = "where it loses most, or gains least"
    else:
        last = "where it loses most"
    return first, last


def _make_examples(items: Sequence[ExtremeItem], report: ReportData) -> tuple[ItemExample, ...]:
    return tuple(_make_example(one, report) for one in items)


def _make_example(item: ExtremeItem, report: ReportData) -> ItemExample:
    text = report.items.get(item.item, NO_TEXT)
    return ItemExample(
        item=item.item,
        context=text.context,
        target=text.target,
        gain=format_signed(item.gain, 3),
        scores=f"{format_plain(item.baseline_score, 3)} → {format_plain(item.arm_score, 3)}",
    )
