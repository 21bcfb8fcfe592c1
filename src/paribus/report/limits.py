"""This does not show: what a reader might take from the page and should not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Any

from paribus.analyse import column_of
from paribus.analyse.remarks import begin_remark
from paribus.analyse.verdict import BOUND_WORDS
from paribus.record.plan import StageRecord
from paribus.report.contrasts import undeclared_interaction
from paribus.report.numbers import format_count, join_words
from paribus.report.report_data import ReportData
from paribus.report.stages import stage_names
from paribus.spec.yardstick import HEAD

YARDSTICK_DESCRIPTIONS = {
    "halves": "the likelihood of the second half of held-out documents, given the first",
    "pairs": "the likelihood of held-out targets, given their sources",
    "pseudo": "the pseudo-likelihood of tokens of held-out documents, each masked in turn",
}


SOURCE_DESCRIPTIONS = {
    "python-docs": "the documentation of Python and its installed libraries",
    "python-code": "the source code of Python and its installed libraries",
    "python-summaries": (
        "functions of Python and its installed libraries, each with the first line of its docstring"
    ),
    "python-labels": (
        "docstrings of Python and its installed libraries, each with what it documents"
    ),
    "python-tags": (
        "statements of Python and its installed libraries, each name with what it does there"
    ),
    "files": "text from the files",
    "pairs": "pairs from the files",
    "labelled": "texts with labels from the files",
    "tagged": "sentences with tags from the files",
    "conversations": "conversations from the files",
    "preferences": "preferences from the files",
}


ANONYMOUS_SOURCES = {
    "files": "text from files",
    "pairs": "pairs from files",
    "labelled": "texts with labels from files",
    "tagged": "sentences with tags from files",
    "conversations": "conversations from files",
    "preferences": "preferences from files",
}


def limitations(report: ReportData) -> list[str]:
    return list(_limitations(report))


def _limitations(report: ReportData) -> Iterator[str]:
    baseline = report.findings.baseline
    tokens = format_count(report.plan.arms[baseline].total("tokens_read"))
    sizes = [report.plan.arms[arm].price.parameters for arm in report.order]
    size = " to ".join(dict.fromkeys((format_count(min(sizes)), format_count(max(sizes)))))
    if report.plan.rungs:
        yield (
            f"What the verdicts would be at other sizes: they are about {size} parameters that read"
            f" {tokens} tokens. Laws are extrapolated beyond the sizes and durations of the ladder."
        )
    else:
        yield (
            f"What happens at other sizes, or after more training: {size} parameters read {tokens}"
            " tokens."
        )
    yield f"What happens on other text: {_describe_text(report, baseline)}."
    if report.measure.is_likelihood:
        others = "How good the text is that the arms write, or how well they do a task"
    else:
        others = "How well the arms do another task, or this one asked in other words"
    yield f"{others}: measured was {describe_yardstick(report)}."
    begin = begin_remark(report.plan)
    if begin is not None:
        yield f"What another start would give: {begin}."
    if report.findings.rates is None:
        if report.has_one_learning_rate:
            at = "all trained at one"
        else:
            at = "each trained at the rate written for it"
        yield f"What each arm can do at its own best learning rate: {at}."
    silent = undeclared_interaction(report)
    if silent:
        yield silent
    words = _verdict_words(report)
    if "inconclusive" in words:
        yield (
            "That arms are equal where the verdict is inconclusive: it says that these runs cannot"
            " tell."
        )
    if words & set(BOUND_WORDS):
        yield (
            "That arms are equal where the verdict is at floor or at ceiling: there the task cannot"
            " tell."
        )
    if "bimodal" in words:
        yield (
            "Which arm is better where the verdict is bimodal: there some runs learnt and some did"
            " not."
        )
    if report.findings.margin is not None and words & {"better", "worse"}:
        yield (
            "That a difference matters: the margin is the design's own idea of what is large"
            " enough to."
        )


def _verdict_words(report: ReportData) -> set[str | None]:
    """The words that any comparison or contrast got; None where one got none."""
    words = {contrast.word for contrast in report.findings.contrasts}
    for arm in report.findings.arms:
        words.add(arm.judgement.verdict.word)
    return words


def _describe_text(report: ReportData, arm: str) -> str:
    """What all text of an arm was, stage by stage where stages read different text."""
    texts = [sources_read(report, stage) for stage in report.plan.arms[arm].run.stages]
    if len(set(texts)) == 1:
        return f"all of it was {texts[0]}"
    named = zip(texts, stage_names(report, arm), strict=True)
    return "; ".join(f"in {name} it was {text}" for text, name in named)


def sources_read(report: ReportData, stage: StageRecord) -> str:
    """What a stage was trained on, in words."""
    descriptions: list[str] = []
    for source in stage.corpus.sources:
        description = _describe_source(source.table, report)
        if description not in descriptions:
            descriptions.append(description)
    return join_words(descriptions)


def _describe_source(source: Mapping[str, Any], report: ReportData) -> str:
    """A source in words; an anonymous page names no file."""
    if not report.anonymous:
        return describe_source(source)
    return ANONYMOUS_SOURCES.get(source["kind"], describe_source({"kind": source["kind"]}))


def describe_source(source: Mapping[str, Any]) -> str:
    """A source of text in words: what it is, and the last part of where it lies."""
    words = SOURCE_DESCRIPTIONS.get(source["kind"], f"an invented language ({source['kind']})")
    names = [PurePath(path.replace("\\", "/")).name for path in source.get("paths", ())]
    if names:
        return f"{words} {join_words(names)}"
    return words


def describe_yardstick(report: ReportData) -> str:
    """The primary yardstick in words."""
    table = report.plan.design.primary.measure.table
    if report.measure.is_likelihood:
        description = YARDSTICK_DESCRIPTIONS.get(table["kind"], table["kind"])
    elif table["kind"] == HEAD:
        description = f"{report.measure.kind} of a fine-tuned head on held-out texts"
    else:
        description = f"{report.measure.kind} at a task, {table['protocol']['kind']}"
    return f"{description} ({column_of(table)})"
