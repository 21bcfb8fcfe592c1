"""The report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from paribus.report.arm_costs import cost_lines, cost_table
from paribus.report.contrasts import (
    HEADING,
    contrast_lines,
    contrast_texts,
    describe_effect_scale,
)
from paribus.report.details import detail_lines, details_heading
from paribus.report.early_order import TITLE, describe_early_order
from paribus.report.hyperparameters import (
    HYPERPARAMETERS,
    hyperparameter_caption,
    hyperparameter_tables,
)
from paribus.report.ladder_gains import GAINS_TITLE, ladder_gain_heading
from paribus.report.ladder_rates import RATES_TITLE, ladder_rate_heading
from paribus.report.laws import (
    EXPONENT_HEADING,
    EXPONENTS_TITLE,
    LAW_HEADING,
    LAWS_TITLE,
    PREDICTION_HEADING,
    PREDICTIONS_TITLE,
    READING_HEADING,
    READINGS_NOTE,
    READINGS_TITLE,
    SHARED_HEADING,
    SHARED_TITLE,
    law_section,
)
from paribus.report.limits import describe_yardstick, limitations
from paribus.report.methods import METHODS, behind_caption, methods
from paribus.report.noise import METHOD, noise_heading, noise_lines
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import DASH
from paribus.report.overview import (
    COMPUTE,
    comparison_headings,
    comparison_lines,
    describe_tally,
)
from paribus.report.parent_kl import KL_HEADING, KL_NOTE, KL_TITLE, kl_lines
from paribus.report.positive_control import describe_control
from paribus.report.rank_effect import RANK_TITLE, rank_note, rank_sentences
from paribus.report.report_data import ReportData
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.series import describe_series
from paribus.report.size_trends import TREND_HEADING, TRENDS_NOTE, TRENDS_TITLE
from paribus.report.tables import (
    INSIDE_HEADING,
    INSIDE_NOTE,
    SECONDARY_HEADING,
    inside_tables,
    secondary_tables,
)
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import trust_checks
from paribus.report.verdict_notes import verdict_notes
from paribus.report.verdicts import (
    describe_fresh_seeds,
    verdict_texts,
)

TRUST_MARKS = {"yes": "✓", "mind": "!", "no": "✗"}
_CODE = re.compile(r"`([^`]*)`")  # a command within a sentence
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def markdown_report(report: ReportData) -> str:
    """The first screen of the page and the numbers behind it, for a repository or an issue."""
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: ReportData) -> Iterator[str]:
    yield f"# {_escape_markdown(report.plan.question)}\n"
    yield from _notice_section(report)
    yield from _verdict_section(report)
    yield "## Can I trust it?\n"
    for one in trust_checks(report):
        name, text = _escape_markdown(one.name), _escape_markdown(one.text)
        yield f"- {TRUST_MARKS[one.mark]} **{name}.** {text}"
    yield "\n## Same verdict if …\n"
    lines = [(one.by, one.arm or "all", one.same, one.text) for one in sensitivity_lines(report)]
    yield from _table(("made equal in", "arm", "same verdict?", ""), lines)
    yield "\n## What each arm costs\n"
    yield from _cost_section(report)
    yield "\n## This does not show\n"
    for limit in limitations(report):
        yield f"- {_escape_markdown(limit)}"
    yield from _number_sections(report)
    yield from _method_sections(report)


def _notice_section(report: ReportData) -> Iterator[str]:
    """What is to be known before any verdict."""
    if report.findings.look_description:
        yield f"{_escape_markdown(report.findings.look_description)}.\n"
    for one in describe_series(report):
        yield f"{_escape_markdown(one)}\n"
    lock = report.findings.lock
    if lock is not None and not lock.as_planned:
        yield f"**Not as planned:** {_escape_markdown(lock.description)}.\n"
    if report.findings.agreement.faults:
        yield f"**No verdict:** {_escape_markdown(report.findings.agreement.description)}.\n"
    text = describe_text_differences(report)
    if text:
        yield f"{_escape_markdown(text)}\n"


def _verdict_section(report: ReportData) -> Iterator[str]:
    """Every verdict in sentences, and what was measured."""
    for one in contrast_texts(report):
        yield f"**{_escape_markdown(one.headline)}**"
        yield _paragraph(_number_sentence(one.numbers), one.meaning, one.compound, one.advice)
    yield from _overview_table(report)
    for one in verdict_texts(report):
        control = " (the positive control)" if one.is_control else ""
        yield f"**{_escape_markdown(one.headline)}**{control}"
        numbers = _number_sentence(one.numbers)
        yield _paragraph(one.failures, numbers, one.meaning, one.compound, one.compute, one.advice)
    control = describe_control(report)
    if control:
        yield f"{_escape_markdown(control)}\n"
    for note in verdict_notes(report):
        yield f"{_escape_markdown(note)}\n"
    fresh = describe_fresh_seeds(report)
    if fresh:
        yield f"{_escape_outside_code(fresh)}\n"
    yield (
        f"Measured: {_escape_markdown(describe_yardstick(report))}, in"
        f" {report.measure.unit}. Margin:"
        f" {_escape_markdown(report.findings.margin_description)}.\n"
    )


def _number_sentence(numbers: str) -> str:
    if numbers:
        return f"{numbers.capitalize()}."
    return ""


def _paragraph(*sentences: str) -> str:
    """Sentences, of which some may be empty, and an empty line."""
    return _escape_markdown(" ".join(filter(None, sentences))) + "\n"


def _overview_table(report: ReportData) -> Iterator[str]:
    """A line a comparison, where there are many."""
    lines = comparison_lines(report)
    if lines:
        yield f"{_escape_markdown(describe_tally(lines, report))}\n"
        columns = comparison_headings(lines, report)
        table = [columns, *[one.cells[: len(columns)] for one in lines]]
        if all(one.compute == DASH for one in lines):
            place = columns.index(COMPUTE)
            table = [(*cells[:place], *cells[place + 1 :]) for cells in table]
        yield from _table(table[0], table[1:])
        yield ""


def _number_sections(report: ReportData) -> Iterator[str]:
    """The tables of numbers that the verdict rests on."""
    details = detail_lines(report)
    if details:
        caption = _escape_markdown(behind_caption(report))
        yield f"\n## The numbers behind the verdict\n\n*{caption}*\n"
        yield from _table(details_heading(report), details)
    components = noise_lines(report)
    if components:
        yield f"\n## {NOISE}\n\n{_escape_markdown(METHOD)}\n"
        yield from _table(noise_heading(report), components)
    if report.findings.contrasts:
        yield f"\n## Contrasts\n\n{_escape_markdown(describe_effect_scale(report))}\n"
        yield from _table(HEADING, contrast_lines(report))
    early = describe_early_order(report)
    if early:
        yield f"\n## {TITLE}\n\n{_escape_markdown(early)}"


def _method_sections(report: ReportData) -> Iterator[str]:
    """How the study was made, and yardsticks beside the primary one."""
    yield f"\n## {METHODS}\n\n{_escape_markdown(methods(report))}\n"
    yield f"## {HYPERPARAMETERS}\n\n*{_escape_markdown(hyperparameter_caption(report))}*\n"
    for columns, lines in hyperparameter_tables(report):
        yield from _table(columns, lines)
        yield ""
    for name, lines in secondary_tables(report):
        yield f"\n## {_escape_markdown(name)}\n\nA secondary yardstick, to explore: no verdict.\n"
        yield from _table(SECONDARY_HEADING, lines)
    yield from _law_section(report)
    yield from _inside_section(report)
    distances = kl_lines(report)
    if distances:
        yield f"\n## {KL_TITLE}\n\n{KL_NOTE}\n"
        yield from _table(KL_HEADING, distances)


def _law_section(report: ReportData) -> Iterator[str]:
    """The laws of a ladder: one for each arm, their exponents, and what they predicted."""
    section = law_section(report)
    if section is None:
        return
    yield f"\n## {LAWS_TITLE}\n\n{_escape_markdown(section['note'])}\n"
    if section["scoreless"]:
        yield f"{_escape_markdown(section['scoreless'])}\n"
    if section["refusal"]:
        yield f"{_escape_markdown(section['refusal'])}\n"
    if section["unknown_arms"]:
        yield f"{_escape_markdown(section['unknown_arms'])}\n"
    if "fault" in section:
        yield f"There is no law: {_escape_markdown(section['fault'])}"
        yield from _ladder_gains(report, section)
        yield from _trend_section(section)
        return
    for name in ("noise", "misfit", "unbounded"):
        if section[name]:
            yield f"{_escape_markdown(section[name])}\n"
    yield from _table(LAW_HEADING, section["laws"])
    if section["exponents"]:
        yield f"\n### {EXPONENTS_TITLE}\n\n{_escape_markdown(section['floor'])}\n"
        yield from _table(EXPONENT_HEADING, section["exponents"])
        yield ""
    for sentence in section["multipliers"]:
        yield f"- {_escape_markdown(sentence)}"
    if section["predictions"]:
        yield f"\n### {PREDICTIONS_TITLE}\n"
        yield from _table(PREDICTION_HEADING, section["predictions"])
    yield from _ladder_gains(report, section)
    yield from _trend_section(section)
    yield f"\n### {READINGS_TITLE}\n\n{_escape_markdown(READINGS_NOTE)}\n"
    yield from _table(READING_HEADING, section["readings"])
    if section["shared_exponents"]:
        yield f"\n### {SHARED_TITLE}\n\n{_escape_markdown(section['shared_misfit'])}\n"
        yield from _table(SHARED_HEADING, section["shared_exponents"])
    if section["rates"]:
        yield f"\n### {RATES_TITLE}\n\n{_escape_markdown(section['rate_law'])}\n"
        yield from _table(ladder_rate_heading(report), section["rates"])


def _ladder_gains(report: ReportData, section: Mapping[str, Any]) -> Iterator[str]:
    """What arms gain on each other, size by size."""
    if section["gains"]:
        yield f"\n### {GAINS_TITLE}\n\n{_escape_markdown(section['gains_note'])}\n"
        yield from _table(ladder_gain_heading(report), section["gains"])


def _trend_section(section: Mapping[str, Any]) -> Iterator[str]:
    """The other yardsticks of a ladder, size by size."""
    if not section["trends"]:
        return
    yield f"\n### {TRENDS_TITLE}\n\n{_escape_markdown(TRENDS_NOTE)}\n"
    yield from _table(TREND_HEADING, section["trends"])
    yield ""
    for sentence in section["trend_sentences"]:
        yield f"- {_escape_markdown(sentence)}"


def _inside_section(report: ReportData) -> Iterator[str]:
    """What probes found, and whether the score follows the rank."""
    inside = inside_tables(report)
    if inside:
        yield f"\n## Inside\n\n{_escape_markdown(INSIDE_NOTE)}"
    for name, lines in inside:
        yield f"\n### {_escape_markdown(name)}\n"
        yield from _table(INSIDE_HEADING, lines)
    sentences, note = rank_sentences(report.findings), rank_note(report.findings)
    if sentences:
        yield f"\n### {RANK_TITLE}\n"
    if note:
        yield _paragraph(note)
    for sentence in sentences:
        yield f"- {_escape_markdown(sentence)}"


def _cost_section(report: ReportData) -> Iterator[str]:
    if not report.has_many_columns:
        rows = [(line.name, *line.values) for line in cost_lines(report)]
        yield from _table(("", *report.order), rows)
        return
    heading, lines, equal = cost_table(report)
    if len(heading) > 1:
        yield from _table(heading, lines)
    yield f"\n{_escape_markdown(equal)}"


def _table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _table_row(heading)
    yield "|" + "---|" * len(heading)
    yield from map(_table_row, lines)


def _table_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_escape_markdown, cells)) + " |"


def _escape_markdown(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _escape_outside_code(text: str) -> str:
    """A sentence of ours whose commands can be copied as they are."""
    parts = _CODE.split(text)  # words and commands in turn
    for place, part in enumerate(parts):
        if place % 2:
            parts[place] = f"`{part}`"
        else:
            parts[place] = _MARKDOWN.sub(r"\\\1", part)
    return "".join(parts)
