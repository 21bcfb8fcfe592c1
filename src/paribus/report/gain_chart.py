"""What the charts of gains share: which comparisons they show, the names of rows, the axis, and
the line at zero.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import isfinite

import altair as alt

from paribus.analyse.findings import ArmFinding
from paribus.report.charts import chart_data, css_colour, multiline_label_expression
from paribus.report.numbers import quote_arm
from paribus.report.report_data import ReportData

LINE, LEADING = 18, 15  # letters of a label's line, and pixels
# of a word that is too long for a line: it may be broken after a hyphen and before a plus
_WORD_PIECE = re.compile(r"\+?[^+-]*-?")
SEPARATE_PLOT_RATIO = 3  # a control whose effect is so many times larger has a plot of its own


def compared_arms(report: ReportData) -> list[ArmFinding]:
    """The comparisons that came to numbers."""
    return [arm for arm in report.findings.arms if arm.judgement.comparison is not None]


def split_control(
    arms: Sequence[ArmFinding], report: ReportData
) -> tuple[list[ArmFinding], list[ArmFinding]]:
    """The comparisons of the positive control, and the others."""
    control, others = [], []
    for arm in arms:
        if arm.name == report.first_edition_control_arm:
            control.append(arm)
        else:
            others.append(arm)
    return control, others


def reference_names(arms: Sequence[ArmFinding]) -> str:
    """What these are judged against, in a sentence: one arm's name, or each its own."""
    names = {arm.against for arm in arms}
    if len(names) == 1:
        return quote_arm(names.pop())
    return "the arm that each is judged against"


def break_name(name: str) -> list[str]:
    """A name in lines, none longer than LINE where it can be broken: between words, and inside a
    word only where it is too long itself.
    """
    lines = [""]
    for word in name.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > LINE:
            lines.append("")
        if lines[-1]:
            lines[-1] += " "
        for piece in _WORD_PIECE.findall(word):
            if piece and lines[-1].strip() and len(lines[-1]) + len(piece) > LINE:
                lines.append("")
            lines[-1] += piece
    return lines


def row_labels(labels: Sequence[Sequence[str]], size: int, limit: int) -> alt.Axis:
    """The axis of rows whose labels have several lines each; a label is centred on its row."""
    lines = multiline_label_expression(labels)
    return alt.Axis(
        labelFontSize=size,
        labelColor=css_colour("ink"),
        labelLimit=limit,
        labelLineHeight=LEADING,
        labelExpr=lines,
        labelOffset=alt.ExprRef(f"{-LEADING / 2} * (length({lines}) - 1)"),
        grid=False,
    )


def zero_line(unit: str) -> alt.Chart:
    """Where a gain is none."""
    return (
        alt.Chart(chart_data([{"zero": 0}]))
        .mark_rule(color=css_colour("muted"), strokeDash=[3, 3])
        .encode(x=gain_axis("zero:Q", unit))
    )


def gain_axis(field: str, unit: str) -> alt.X:
    return alt.X(
        field,
        title=f"gain in {unit} (positive is better)",
        # at its end: on a narrow page the title is wider than the axis, and has room on the left
        axis=alt.Axis(tickCount=5, titleAnchor="end"),
        scale=alt.Scale(padding=14),
    )


def finite_end(value: float) -> float | None:
    """An end of an interval, None where it has none and no bar can be drawn."""
    if isfinite(value):
        return value
    return None
