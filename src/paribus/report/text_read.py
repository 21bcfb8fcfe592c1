"""What a budget of tokens left unequal: the bytes and epochs that each judged pair read, in
words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paribus.analyse import TextDifference, TextRead, text_differences
from paribus.analyse.text_read import LARGE_DIFFERENCE, parse_epochs
from paribus.record.plan import ArmRecord
from paribus.report.numbers import MAX_LISTED, format_percent, join_words, quote_arm
from paribus.report.report_data import ReportData
from paribus.report.stages import stage_names
from paribus.report.tables import control_line

BUDGET_PHRASE = "differs by the budget chosen"


def describe_text_differences(report: ReportData) -> str:
    """The text of every judged pair that differs by more than 2 %; empty where none does, or by
    no such budget.
    """
    large = [one for one in _text_differences(report) if one.is_large]
    if not large:
        return ""
    large.sort(key=_largest_difference, reverse=True)
    sentences = [_describe_difference(one, report) for one in large[:MAX_LISTED]]
    budget = str(report.plan.design.budget).replace("_", " ")
    n_more = len(large) - MAX_LISTED
    if n_more > 0:
        sentences.append(
            f"The same holds for {n_more} more comparisons; the control table lists all."
        )
    return f"Text {BUDGET_PHRASE} ({budget}). {' '.join(sentences)}"


def _text_differences(report: ReportData) -> tuple[TextDifference, ...]:
    plan, epochs = report.plan, epochs_by_arm(report)
    if epochs is None:
        return ()
    reads = {arm: _text_read(plan.arms[arm], str(epochs[arm])) for arm in report.order}
    pairs = [(arm.name, arm.against) for arm in report.findings.arms]
    if not pairs:  # where contrasts are judged
        pairs = [(arm, report.findings.baseline) for arm in report.order[1:]]
    return text_differences(plan.design.budget, pairs, reads)


def epochs_by_arm(report: ReportData) -> Mapping[str, Any] | None:
    """Arm → its epochs, as the control table writes them."""
    line = control_line(report, "epochs")
    if line is None:
        return None
    return line.values


def _text_read(arm: ArmRecord, epochs: str) -> TextRead:
    question = (len(arm.run.stages), arm.stage.corpus.table, arm.stage.objective)
    own = parse_epochs(epochs)
    return TextRead.of_stages(arm.n_steps, arm.total("bytes_read"), own, arm.texts, question)


def _largest_difference(difference: TextDifference) -> float:
    return max(abs(difference.bytes_difference), abs(difference.epochs_difference))


def _describe_difference(difference: TextDifference, report: ReportData) -> str:
    times = _describe_times(report, difference.arm)
    text = (
        f"{_describe_bytes(difference)}, and the training text {times} against"
        f" {_describe_times(report, difference.against).removesuffix(' times')}."
    )
    if difference.steps_for_equal_bytes == difference.n_steps:
        return f"{text} Its bytes are as equal as whole steps come."
    return (
        f"{text} Equal bytes would give it {difference.steps_for_equal_bytes} steps, not"
        f" {difference.n_steps}."
    )


def _describe_times(report: ReportData, arm: str) -> str:
    """How often an arm reads its text; of several stages, each with its name."""
    epochs = str((epochs_by_arm(report) or {})[arm])
    parts = epochs.split("; ")
    if len(parts) == 1:
        return f"{epochs} times"
    named = zip(parts, stage_names(report, arm), strict=True)
    return join_words([f"{part} times in {name}" for part, name in named])


def _describe_bytes(difference: TextDifference) -> str:
    arm, against = quote_arm(difference.arm), quote_arm(difference.against)
    if abs(difference.bytes_difference) <= LARGE_DIFFERENCE:
        return f"{arm} reads about as many bytes as {against}"
    fewer = "fewer" if difference.bytes_difference < 0 else "more"
    share = format_percent(abs(difference.bytes_difference))
    return f"{arm} reads {share} {fewer} bytes than {against}"
