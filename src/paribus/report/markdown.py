"""The report as Markdown, and its result as a LaTeX table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from paribus.analyse import Verdict, column_of
from paribus.analyse.findings import ArmFinding
from paribus.report.arm_costs import cost_lines, cost_table
from paribus.report.contrasts import (
    HEADING,
    contrast_latex_rows,
    contrast_lines,
    contrast_texts,
    describe_effect_scale,
)
from paribus.report.details import detail_lines, details_heading
from paribus.report.early_order import TITLE, describe_early_order
from paribus.report.intervals import digits_of, verdict_interval_cell
from paribus.report.limits import describe_yardstick, limitations
from paribus.report.methods import (
    HYPERPARAMETERS,
    METHODS,
    behind_caption,
    hyperparameter_caption,
    hyperparameter_tables,
    methods,
    results_caption,
)
from paribus.report.noise import METHOD, describe_noise, noise_heading, noise_lines
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import DASH, MINUS, format_signed, percent_level
from paribus.report.overview import comparison_headings, comparison_lines, describe_tally
from paribus.report.positive_control import describe_control
from paribus.report.report_data import ReportData
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.series import describe_series
from paribus.report.tables import SECONDARY_HEADING, score_summary, secondary_tables
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import allowed_confounds, trust_checks
from paribus.report.verdicts import (
    advice_on_arm,
    describe_fresh_seeds,
    quote_comparison,
    verdict_texts,
)

SHORT_VERDICTS = {
    "unstable": "unstable",
    "withheld": "withheld",
    "no verdict": "no verdict (not trained long enough)",
}  # in a typeset table
TRUST_MARKS = {"yes": "✓", "mind": "!", "no": "✗"}
_CODE = re.compile(r"`([^`]*)`")  # a command within a sentence
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        MINUS: "$-$",
        "–": "--",
        "±": r"$\pm$",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "β": r"$\beta$",
        "ε": r"$\epsilon$",
        "×": r"$\times$",
        "…": r"\ldots{}",
        "|": r"\textbar{}",
    }
)


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
        yield _paragraph(_number_sentence(one.numbers), one.meaning, one.advice)
    yield from _overview_table(report)
    for one in verdict_texts(report):
        control = " (the positive control)" if one.is_control else ""
        yield f"**{_escape_markdown(one.headline)}**{control}"
        numbers = _number_sentence(one.numbers)
        yield _paragraph(one.failures, numbers, one.meaning, one.compute, one.advice)
    control = describe_control(report)
    if control:
        yield f"{_escape_markdown(control)}\n"
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
        yield from _table(columns, [one.cells[: len(columns)] for one in lines])
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


def latex_table(report: ReportData) -> str:
    """For a paper: booktabs tables of every arm's score, verdict and hyper-parameters, and a
    methods paragraph.
    """
    lines = [r"\toprule", *_result_lines(report), r"\bottomrule"]
    results = _floating("results", "lrrrl", lines, results_caption(report))
    notes = [f"% {' '.join(note.split())}" for note in _result_notes(report)]
    paragraph = rf"\paragraph{{{METHODS}.}} {_typeset_prose(methods(report))}"
    whole = [*results, *notes, "", paragraph, "", *_typeset_hyperparameters(report)]
    return "\n".join(whole) + "\n"


def _result_lines(report: ReportData) -> Iterator[str]:
    """Every contrast, then every arm's score with its comparisons."""
    yield r"arm & score & gain & interval & verdict \\"
    yield r"\midrule"
    contrasts = contrast_latex_rows(report)
    for name, *cells in contrasts:
        yield _typeset_row((name, DASH, *cells))
    if contrasts:
        yield r"\midrule"
    column = column_of(report.plan.design.primary.measure.table)
    for arm, (mean, _) in zip(report.order, score_summary(report, column), strict=True):
        for cells in _comparison_cells(arm, report):
            yield _typeset_row((arm, mean, *cells))


def _typeset_row(cells: Iterable[str]) -> str:
    return " & ".join(map(_escape_latex, cells)) + r" \\"


def _result_notes(report: ReportData) -> Iterator[str]:
    """What stands as comments under the table of results."""
    measure = report.measure
    column = column_of(report.plan.design.primary.measure.table)
    level = 1 - report.findings.family_alpha / report.findings.n_comparisons
    yield (
        f"score: {measure.unit} of {column}, {measure.direction}; intervals at"
        f" {percent_level(level)} unless they say otherwise"
    )
    yield f"margin: {report.findings.margin_description}"
    yield from describe_series(report)
    beside = (
        report.findings.look_description,
        describe_text_differences(report),
        describe_control(report),
    )
    yield from filter(None, beside)
    yield from _advice_notes(report)
    for one in allowed_confounds(report):
        yield f"allowed to differ: {one}"
    noise = describe_noise(report)
    if noise:
        yield noise


def _typeset_hyperparameters(material: ReportData) -> Iterator[str]:
    """A table of hyper-parameters, or two where there are many arms."""
    for place, (columns, lines) in enumerate(hyperparameter_tables(material), 1):
        body = map(_typeset_row, lines)
        whole = [r"\toprule", _typeset_row(columns), r"\midrule", *body, r"\bottomrule"]
        caption = hyperparameter_caption(material)
        yield from _floating(f"hyperparameters-{place}", "l" * len(columns), whole, caption)


def _floating(label: str, columns: str, lines: Sequence[str], caption: str) -> list[str]:
    """A table with its caption above it, to be put into a paper as it is."""
    begin = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_typeset_prose(caption)}}}",
        rf"\label{{tab:{label}}}",
    ]
    return [*begin, rf"\begin{{tabular}}{{{columns}}}", *lines, r"\end{tabular}", r"\end{table}"]


def _typeset_prose(text: str) -> str:
    """Sentences, with the quotation marks of LaTeX."""
    return re.sub(r'"([^"]*)"', r"``\1''", _escape_latex(text))


def _advice_notes(report: ReportData) -> Iterator[str]:
    """What inconclusive contrasts and comparisons would take, but for the positive control."""
    for one in contrast_texts(report):
        if one.advice:
            yield f"{one.name}: {one.advice.removesuffix('.')}"
    for arm in report.findings.arms:
        advice = advice_on_arm(arm)
        if advice is not None and arm.name != report.first_edition_control_arm:
            name = quote_comparison(arm, report.findings.baseline)
            yield f"{name}: {advice.description}"
    fresh = describe_fresh_seeds(report)
    if fresh:
        yield fresh


def _comparison_cells(arm: str, report: ReportData) -> list[tuple[str, str, str]]:
    """Gain, interval and verdict of every comparison of an arm; of one that has none, that it
    has none.
    """
    own = [one for one in report.findings.arms if one.name == arm]
    if own:
        return [_judgement_cells(one, report) for one in own]
    if arm == report.findings.baseline:
        return [(DASH, DASH, "baseline")]
    return [(DASH, DASH, DASH)]


def _judgement_cells(arm: ArmFinding, report: ReportData) -> tuple[str, str, str]:
    comparison = arm.judgement.comparison
    verdict = SHORT_VERDICTS.get(arm.judgement.verdict.word, _verdict_cell(arm.judgement.verdict))
    if arm.against != report.findings.baseline:
        verdict += f" (against {arm.against})"
    if comparison is None:
        return DASH, DASH, verdict
    gain = format_signed(comparison.effect, digits_of(comparison))
    return gain, verdict_interval_cell(comparison), verdict


def _verdict_cell(verdict: Verdict) -> str:
    """The verdict for a cell; the margin of `equivalent` stands beside its interval."""
    if verdict.word == "equivalent":
        return str(replace(verdict, detail=""))
    return str(verdict)


def _escape_latex(text: str) -> str:
    return " ".join(text.split()).translate(_LATEX)
