"""Was text repeated, and did the arms read as much of it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from paribus.analyse.text_read import epochs_by_text, parse_epochs, says_every_stage
from paribus.report.numbers import format_count, join_words, significant
from paribus.report.report_data import ReportData
from paribus.report.stages import stage_names
from paribus.report.text_read import describe_text_differences, epochs_by_arm
from paribus.report.trust_check import TrustCheck, yes_unless

TEXT = "Text"
LADDER_TEXT = "Text of the ladder"


def text_checks(report: ReportData) -> Iterator[TrustCheck]:
    """How often the text was read, and where a budget of tokens gave judged arms unequal text."""
    yield _epoch_check(report)
    yield from _ladder_epoch_check(report)
    differences = describe_text_differences(report)
    if differences:
        yield TrustCheck("Budget", "mind", differences)


def _epoch_check(report: ReportData) -> TrustCheck:
    if epochs_by_arm(report) is None:
        return TrustCheck(TEXT, "mind", "How often the text was read is not known.")
    tokens, repeated = f"{format_count(_mean_tokens(report))} tokens", _is_repeated(report)
    repetition = "some text was repeated" if repeated else "no text was repeated"
    names = stage_names(report)
    if len(names) == 1:
        text = f"{tokens}, {_describe_epochs(report, -1)}; {repetition}."
        return TrustCheck(TEXT, yes_unless(repeated), text)
    if _says_every_stage(report):
        stages = []
        for number, name in enumerate(names):
            stages.append(f"{_describe_epochs(report, number)} in {name}")
        text = f"{tokens} in all stages: {join_words(stages)}; {repetition}."
        return TrustCheck(TEXT, yes_unless(repeated), text)
    known = f"{_describe_epochs(report, -1)} of the text of {names[-1]}"
    if repeated:
        known += ", so some text was repeated"
    text = (
        f"{tokens} in all stages: {known}. The plan does not say how often the text of"
        f" {join_words(names[:-1])} was read."
    )
    return TrustCheck(TEXT, "mind", text)


def _ladder_epoch_check(report: ReportData) -> Iterator[TrustCheck]:
    """How often the longest runs of a ladder read their text, of which a law is made."""
    durations = [n_tokens for rung in report.plan.rungs for n_tokens in rung.tokens]
    by_arm = epochs_by_arm(report)
    if not durations or by_arm is None or len(stage_names(report)) > 1:
        return
    readings: list[float] = []
    for arm, epochs in by_arm.items():
        own_tokens = report.plan.arms[arm].total("tokens_read")
        readings.append(max(durations) / own_tokens * max(parse_epochs(str(epochs))[-1]))
    repeated = max(readings) > 1
    repetition = "some text was repeated" if repeated else "no text was repeated"
    tokens = f"{format_count(max(durations))} tokens"
    text = f"Its longest runs read {tokens}, {_format_range(readings)} epochs; {repetition}."
    yield TrustCheck(LADDER_TEXT, yes_unless(repeated), text)


def _says_every_stage(report: ReportData) -> bool:
    """Does the plan have the epochs of every stage? An older one has those of the last text."""
    for arm, epochs in (epochs_by_arm(report) or {}).items():
        if not says_every_stage(parse_epochs(str(epochs)), report.plan.arms[arm].texts):
            return False
    return True


def _is_repeated(report: ReportData) -> bool:
    """Was a text read more than once, by one stage or by two of the same text?"""
    for arm, epochs in (epochs_by_arm(report) or {}).items():
        texts = report.plan.arms[arm].texts
        if max(epochs_by_text(parse_epochs(str(epochs)), texts)) > 1:
            return True
        if len(set(texts)) < len(texts):
            return True
    return False


def _describe_epochs(report: ReportData, number: int) -> str:
    """The epochs of a stage, of all arms that have it and of all its sources; -1 is the last."""
    epochs: list[float] = []
    for value in (epochs_by_arm(report) or {}).values():
        stages = parse_epochs(str(value))
        if number < len(stages):
            epochs += stages[number]
    return f"{_format_range(epochs)} epochs"


def _format_range(values: Sequence[float]) -> str:
    if min(values) == max(values):
        return significant(min(values))
    return f"{significant(min(values))} to {significant(max(values))}"


def _mean_tokens(report: ReportData) -> float:
    """Tokens that a run reads, the mean over arms."""
    total: float = 0
    for arm in report.order:
        total += report.plan.arms[arm].total("tokens_read")
    return total / len(report.order)
