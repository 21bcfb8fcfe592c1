"""The result of a study as LaTeX: tables, notes and a methods paragraph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from paribus.analyse import Verdict, column_of
from paribus.analyse.findings import ArmFinding
from paribus.report.contrasts import (
    contrast_latex_rows,
    contrast_texts,
)
from paribus.report.hyperparameters import hyperparameter_caption, hyperparameter_tables
from paribus.report.intervals import digits_of, verdict_interval_cell
from paribus.report.methods import METHODS, methods, results_caption
from paribus.report.noise import describe_noise
from paribus.report.numbers import DASH, MINUS, format_signed, percent_level
from paribus.report.positive_control import describe_control
from paribus.report.report_data import ReportData
from paribus.report.series import describe_series
from paribus.report.tables import score_summary
from paribus.report.text_read import describe_text_differences
from paribus.report.trust import allowed_confounds
from paribus.report.trust_fairness import compound_comparisons
from paribus.report.verdict_notes import verdict_notes
from paribus.report.verdicts import (
    advice_on_arm,
    describe_fresh_seeds,
    quote_comparison,
)

SHORT_VERDICTS = {
    "unstable": "unstable",
    "withheld": "withheld",
    "no verdict": "no verdict (not trained long enough)",
    "at floor": "at floor",
    "at ceiling": "at ceiling",
    "manipulation not shown": "manipulation not shown",
}  # in a typeset table
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
        "α": r"$\alpha$",
        "β": r"$\beta$",
        "ε": r"$\epsilon$",
        "×": r"$\times$",
        "…": r"\ldots{}",
        "|": r"\textbar{}",
    }
)


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
        *verdict_notes(report),
    )
    yield from filter(None, beside)
    yield from _advice_notes(report)
    for one in compound_comparisons(report):
        yield one
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
    own = arm.judgement.verdict
    if own.word in SHORT_VERDICTS:
        verdict = f"{SHORT_VERDICTS[own.word]} {own.seeds}".rstrip()
    else:
        verdict = _verdict_cell(own)
    if arm.against != report.findings.baseline:
        verdict += f" (against {arm.against})"
    difference = report.plan.difference_of(arm.name, arm.against)
    if difference is not None and difference.mark:
        verdict += f"; {difference.mark}"
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
