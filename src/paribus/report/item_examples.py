"""The items on which an arm gains and loses most, with their texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from paribus.analyse import ExtremeItem, extreme_items
from paribus.report.numbers import format_plain, format_signed
from paribus.report.report_data import ReportData

N_EXAMPLES = 5
LEAST_LOSS, LEAST_GAIN = "where it loses least", "where it gains least"


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
    found = []
    for arm in report.findings.arms:
        best, worst = extreme_items(answers[arm.against], answers[arm.name], N_EXAMPLES)
        if best:
            titles = _titles([one.gain for one in best], [one.gain for one in worst])
            found.append(
                ItemExamples(
                    arm.name,
                    arm.against,
                    _make_examples(best, report),
                    _make_examples(worst, report),
                    *titles,
                )
            )
    return found


def _titles(best: Sequence[float], worst: Sequence[float]) -> tuple[str, str]:
    """What the two ends are, of an arm that may gain nowhere or lose nowhere."""
    gains, loses = max(best) > 0, min(worst) < 0
    mixed = gains and min(best) < 0, loses and max(worst) > 0
    if mixed[0]:
        first = "where it gains most, or loses least"
    else:
        if gains:
            first = "where it gains most"
        else:
            first = LEAST_LOSS
    if mixed[1]:
        last = "where it loses most, or gains least"
    else:
        if loses:
            last = "where it loses most"
        else:
            last = LEAST_GAIN
    return first, last


def _make_examples(items: tuple[ExtremeItem, ...], report: ReportData) -> tuple[ItemExample, ...]:
    return tuple(_make_example(one, report) for one in items)


def _make_example(item: ExtremeItem, report: ReportData) -> ItemExample:
    text = report.items.get(item.item)
    return ItemExample(
        item.item,
        "" if text is None else text.context,
        "" if text is None else text.target,
        format_signed(item.gain, 3),
        f"{format_plain(item.baseline_bits, 3)} → {format_plain(item.arm_bits, 3)}",
    )
