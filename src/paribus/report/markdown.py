"""The report as Markdown, and its result as a LaTeX table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from paribus.analyse import Verdict, column_of
from paribus.analyse.findings import UNIT, ArmFinding
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
from paribus.report.noise import HEADING as NOISE_HEADING
from paribus.report.noise import METHOD, describe_noise, noise_lines
from paribus.report.noise import TITLE as NOISE
from paribus.report.numbers import MINUS, format_signed, percent_level
from paribus.report.overview import comparison_headings, comparison_lines, describe_tally
from paribus.report.positive_control import describe_control
from paribus.report.report_data import ReportData
from paribus.report.sensitivity import sensitivity_lines
from paribus.report.series import describe_series
from paribus.report.tables import SECONDARY_HEADING, score_summary, secondary_tables
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import allowed_confounds, trust_checks
from paribus.report.verdicts import advice_on_arm, describe_fresh_seeds, verdict_texts

SHORT_VERDICTS = {
    "unstable": "unstable",
    "withheld": "withheld",
    "no verdict": "no verdict (not trained long enough)",
}  # in a typeset table
TRUST_MARKS = {"yes": "✓", "mind": "!", "no": "✗"}
_CODE = re.compile(r"`([^`]*)`")  # a command within a sentence
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")
_LATEX = {
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


def markdown_report(report: ReportData) -> str:
    """The first screen of the page and the numbers behind it, for a repository or an issue."""
    return "\n".join(_markdown_lines(report)) + "\n"


def _markdown_lines(report: ReportData) -> Iterator[str]:
    yield f"# {_escape_markdown(report.plan.question)}\n"
    if report.findings.look_description:
        yield f"{_escape_markdown(report.findings.look_description)}.\n"
    yield from (f"{_escape_markdown(one)}\n" for one in describe_series(report))
    lock = report.findings.lock
    if lock is not None and not lock.as_planned:
        yield f"**Not as planned:** {_escape_markdown(lock.description)}.\n"
    if report.findings.agreement.faults:
        yield f"**No verdict:** {_escape_markdown(report.findings.agreement.description)}.\n"
    text = describe_text_differences(report)
    if text:
        yield f"{_escape_markdown(text)}\n"
    for one in contrast_texts(report):
        yield f"**{_escape_markdown(one.headline)}**"
        numbers = f"{one.numbers.capitalize()}." if one.numbers else ""
        yield _escape_markdown(" ".join(filter(None, (numbers, one.meaning, one.advice)))) + "\n"
    briefs = comparison_lines(report)
    if briefs:
        yield f"{_escape_markdown(describe_tally(briefs, report))}\n"
        columns = comparison_headings(briefs, report)
        yield from _table(columns, [one.cells[: len(columns)] for one in briefs])
        yield ""
    for one in verdict_texts(report):
        control = " (the positive control)" if one.is_control else ""
        yield f"**{_escape_markdown(one.headline)}**{control}"
        numbers = f"{one.numbers.capitalize()}." if one.numbers else ""
        yield (
            _escape_markdown(
                " ".join(
                    filter(None, (one.failures, numbers, one.meaning, one.compute, one.advice))
                )
            )
            + "\n"
        )
    control = describe_control(report)
    if control:
        yield f"{_escape_markdown(control)}\n"
    fresh = describe_fresh_seeds(report)
    if fresh:
        yield f"{_escape_outside_code(fresh)}\n"
    yield (
        f"Measured: {_escape_markdown(describe_yardstick(report))}, in {UNIT}. Margin:"
        f" {_escape_markdown(report.findings.margin_description)}.\n"
    )
    yield "## Can I trust it?\n"
    yield from (
        f"- {TRUST_MARKS[one.mark]} **{_escape_markdown(one.name)}.** {_escape_markdown(one.text)}"
        for one in trust_checks(report)
    )
    yield "\n## Same verdict if …\n"
    lines = [(one.by, one.arm or "all", one.same, one.text) for one in sensitivity_lines(report)]
    yield from _table(("made equal in", "arm", "same verdict?", ""), lines)
    yield "\n## What each arm costs\n"
    yield from _cost_section(report)
    yield "\n## This does not show\n"
    yield from (f"- {_escape_markdown(one)}" for one in limitations(report))
    behind = detail_lines(report)
    if behind:
        yield (
            f"\n## The numbers behind the verdict\n\n*{_escape_markdown(behind_caption(report))}*\n"
        )
        yield from _table(details_heading(report), behind)
    lines = noise_lines(report)
    if lines:
        yield f"\n## {NOISE}\n\n{_escape_markdown(METHOD)}\n"
        yield from _table(NOISE_HEADING, lines)
    if report.findings.contrasts:
        yield f"\n## Contrasts\n\n{_escape_markdown(describe_effect_scale(report))}\n"
        yield from _table(HEADING, contrast_lines(report))
    early = describe_early_order(report)
    if early:
        yield f"\n## {TITLE}\n\n{_escape_markdown(early)}"
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
        return (
            yield from _table(
                ("", *report.order), [(line.name, *line.values) for line in cost_lines(report)]
            )
        )
    heading, lines, equal = cost_table(report)
    if len(heading) > 1:
        yield from _table(heading, lines)
    yield f"\n{_escape_markdown(equal)}"


def _table(heading: Sequence[str], lines: Iterable[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(map(_escape_markdown, heading)) + " |"
    yield "|" + "---|" * len(heading)
    yield from ("| " + " | ".join(map(_escape_markdown, line)) + " |" for line in lines)


def _escape_markdown(text: str) -> str:
    """Text that Markdown leaves as it is."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _escape_outside_code(text: str) -> str:
    """A sentence of ours whose commands can be copied as they are."""
    parts = _CODE.split(text)  # words and commands in turn
    return "".join(
        f"`{part}`" if place % 2 else _MARKDOWN.sub(r"\\\1", part)
        for place, part in enumerate(parts)
    )


def latex_table(report: ReportData) -> str:
    """For a paper: booktabs tables of every arm's score, verdict and hyper-parameters, and a
    methods paragraph.
    """
    column = column_of(report.plan.design.primary.measure.table)
    lines = [r"\toprule", r"arm & score & gain & interval & verdict \\", r"\midrule"]
    told = [(name, "–", *cells) for name, *cells in contrast_latex_rows(report)]
    lines += [" & ".join(map(_escape_latex, one)) + r" \\" for one in told]
    lines += [r"\midrule"] if told else []
    for arm, (mean, _) in zip(report.order, score_summary(report, column), strict=True):
        lines += [
            " & ".join(map(_escape_latex, (arm, mean, *told))) + r" \\"
            for told in _comparison_cells(arm, report)
        ]
    level = 1 - report.findings.family_alpha / report.findings.n_comparisons
    about = (
        f"score: {UNIT} of {column}, lower is better; intervals at {percent_level(level)} unless"
        " they say otherwise"
    )
    if report.findings.look_description:
        reading = [report.findings.look_description]
    else:
        reading = []
    text = describe_text_differences(report)
    notes = [
        about,
        f"margin: {report.findings.margin_description}",
        *describe_series(report),
        *reading,
        *filter(None, [text, describe_control(report)]),
        *_advice_notes(report),
    ]
    notes += [f"allowed to differ: {one}" for one in allowed_confounds(report)]
    notes += filter(None, [describe_noise(report)])
    told = [f"% {' '.join(note.split())}" for note in notes]
    results = _floating("results", "lrrrl", [*lines, r"\bottomrule"], results_caption(report))
    paragraph = rf"\paragraph{{{METHODS}.}} {_typeset_prose(methods(report))}"
    return "\n".join([*results, *told, "", paragraph, "", *_typeset_hyperparameters(report)]) + "\n"


def _typeset_hyperparameters(material: ReportData) -> Iterator[str]:
    """A table of hyper-parameters, or two where there are many arms."""
    for place, (columns, lines) in enumerate(hyperparameter_tables(material), 1):
        typeset = [" & ".join(map(_escape_latex, line)) + r" \\" for line in (columns, *lines)]
        whole = [r"\toprule", typeset[0], r"\midrule", *typeset[1:], r"\bottomrule"]
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
    yield from (
        f"{one.name}: {one.advice.removesuffix('.')}"
        for one in contrast_texts(report)
        if one.advice
    )
    for arm in report.findings.arms:
        advice = advice_on_arm(arm)
        if advice is not None and arm.name != report.control:
            yield f"{report.findings.label(arm)}: {advice.description}"
    fresh = describe_fresh_seeds(report)
    if fresh:
        yield fresh


def _comparison_cells(arm: str, report: ReportData) -> list[tuple[str, str, str]]:
    """Gain, interval and verdict of every comparison of an arm; of one that has none, that it
    has none.
    """
    found = report.findings
    own = [one for one in found.arms if one.name == arm]
    return [_judgement_cells(one, report) for one in own] or [
        ("–", "–", "baseline" if arm == found.baseline else "–")
    ]


def _judgement_cells(arm: ArmFinding, report: ReportData) -> tuple[str, str, str]:
    made = arm.judgement.comparison
    verdict = SHORT_VERDICTS.get(arm.judgement.verdict.word, _verdict_cell(arm.judgement.verdict))
    verdict += "" if arm.against == report.findings.baseline else f" (against {arm.against})"
    if made is None:
        return "–", "–", verdict
    return format_signed(made.effect, digits_of(made)), verdict_interval_cell(made), verdict


def _verdict_cell(verdict: Verdict) -> str:
    """The verdict for a cell; the margin of `equivalent` stands beside its interval."""
    return str(replace(verdict, detail="") if verdict.word == "equivalent" else verdict)


def _escape_latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in " ".join(text.split()))
