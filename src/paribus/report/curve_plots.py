"""Learning curves, one thin line per seed, and the gain along training, with a pointwise band."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import altair as alt

from paribus.analyse import validation_bits_per_byte, validation_rows
from paribus.analyse.curves import BAND_NOTE, NOT_ANNEALED
from paribus.analyse.findings import ArmFinding
from paribus.report.charts import (
    KEY_FIELD,
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    pair_colours,
    row_key,
)
from paribus.report.csv_tables import run_names
from paribus.report.gain_chart import (
    SEPARATE_PLOT_RATIO,
    reference_names,
    split_control,
)
from paribus.report.numbers import (
    capitalise,
    format_count,
    format_signed,
    quote_arm,
    score,
)
from paribus.report.report_data import ReportData
from paribus.report.verdicts import quote_comparison
from paribus.spec.measure import LIKELIHOOD, POINTS

HEIGHT = 300
# validation text is scored by the training's own loss, whatever the primary yardstick measures
VALIDATION = LIKELIHOOD
TOKENS_AXIS = alt.X(
    "tokens:Q",
    scale=alt.Scale(type="log", nice=False),
    title="tokens read",
    axis=alt.Axis(format="~s", grid=False, tickCount=6, labelOverlap=True),
)
POINT_TOOLTIPS = ("arm:N", "seed:N", "run:N", "read:N", "score:N")
STEP_TOOLTIPS = ("pair:N", "read:N", "mean gain:N", "band:N")
ChartRow = dict[str, Any]


def score_axis(unit: str) -> alt.Y:
    """The axis of scores on what was held out for validation."""
    held_out = "validation items" if unit == POINTS else "validation text"
    return alt.Y("bits:Q", title=f"{unit}, {held_out}", scale=alt.Scale(zero=False))


def learning_plot(report: ReportData) -> Plot | None:
    """Validation scores along training; arms with another objective or text than the baseline are
    left out.
    """
    points: dict[str, list[ChartRow]] = {}
    other_tasks, untrained = [], []
    for arm in report.order:
        if not report.has_same_task(arm):
            other_tasks.append(arm)
            continue
        own = list(_points(arm, report))
        if own:
            points[arm] = own
        else:
            untrained.append(arm)
    if not points:
        return None
    omitted = _omitted_note("trained on another objective or text", other_tasks)
    omitted += _omitted_note("without a run that trained", untrained)
    return Plot(
        key="learning",
        title="Learning curves",
        caption=f"{_describe_marks(points)}, on validation text, under the objective of training."
        f" {capitalise(VALIDATION.direction)}; {NOT_ANNEALED}.{omitted}",
        spec=_learning_spec(points, report),
        heading=("arm", "seed", "tokens", VALIDATION.unit),
        numbers=tuple(map(_point_cells, chain.from_iterable(points.values()))),
    )


def _learning_spec(points: Mapping[str, Sequence[ChartRow]], report: ReportData) -> dict[str, Any]:
    arms, x, y = list(points), TOKENS_AXIS, score_axis(VALIDATION.unit)
    base = alt.Chart(chart_data(list(chain.from_iterable(points.values())), report.order))
    shade, dash = arm_colours(report.order, arms), arm_dashes(report.order, arms)
    lines = base.mark_line(strokeWidth=1.2, opacity=0.75).encode(
        x=x, y=y, color=shade, strokeDash=dash, detail=alt.Detail("run:N")
    )
    tooltips = list(map(alt.Tooltip, POINT_TOOLTIPS))
    dots = base.mark_circle(size=70, opacity=0).encode(x=x, y=y, color=shade, tooltip=tooltips)
    layers = [lines, dots]
    lone = _lone_points(points)
    if lone:
        marks = alt.Chart(chart_data(lone, report.order)).mark_circle(size=40, opacity=0.75)
        layers.append(marks.encode(x=x, y=y, color=shade, tooltip=tooltips))
    ends = []
    for arm, own in points.items():
        ends.append(f"{quote_arm(arm)} ends at {_final_scores(own)}")
    return chart_spec(layer_charts(*layers), f"Learning curves: {'; '.join(ends)}.", HEIGHT)


def _lone_points(points: Mapping[str, Sequence[ChartRow]]) -> list[ChartRow]:
    """The points of runs that have one alone, which no line shows."""
    every = list(chain.from_iterable(points.values()))
    n_points = Counter(point["run"] for point in every)
    return [point for point in every if n_points[point["run"]] == 1]


def _describe_marks(points: Mapping[str, Sequence[ChartRow]]) -> str:
    """What is drawn of a run."""
    n_lone = len(_lone_points(points))
    if not n_lone:
        return "One thin line per seed"
    if n_lone == sum(map(len, points.values())):
        return "One point per seed, which was validated once"
    return "One thin line per seed, or a point where it was validated once"


def _omitted_note(why: str, arms: Sequence[str]) -> str:
    if arms:
        return f" Left out, {why}: {', '.join(map(quote_arm, arms))}."
    return ""


def _points(arm: str, report: ReportData) -> Iterator[ChartRow]:
    names = run_names(report)
    for seed, rows in sorted(report.findings.runs[arm].items()):
        for row in validation_rows(rows):
            yield {
                "arm": arm,
                "seed": seed,
                "run": names[arm, seed],
                "tokens": row["tokens_read"],
                "bits": validation_bits_per_byte(row),
                "read": format_count(row["tokens_read"]),
                "score": score(validation_bits_per_byte(row)),
            }


def _point_cells(point: ChartRow) -> tuple[str, ...]:
    return point["arm"], str(point["seed"]), str(point["tokens"]), point["score"]


def _final_scores(points: Sequence[ChartRow]) -> str:
    last = max(point["tokens"] for point in points)
    scores = []
    for point in points:
        if point["tokens"] == last:
            scores.append(point["score"])
    return ", ".join(scores)


def difference_plots(report: ReportData) -> list[Plot]:
    """The gain along training; a positive control that would flatten the others has a plot of
    its own.
    """
    arms = []
    for arm in report.findings.arms:
        if arm.gain_curve and report.has_same_task(arm.name, arm.against):
            arms.append(arm)
    if not arms:
        return []
    control, others = split_control(arms, report)
    if (
        not control
        or not others
        or _max_late_gain(control) <= SEPARATE_PLOT_RATIO * _max_late_gain(others)
    ):
        return [_difference_plot("difference", "The gain along training", arms, report)]
    return [
        _difference_plot("difference", "The gain along training", others, report),
        replace(
            _difference_plot(
                "difference-control",
                "The gain of the positive control along training",
                control,
                report,
            ),
            caption=f"Read it like the plot above; {NOT_ANNEALED}.",
        ),
    ]


def _max_late_gain(arms: Sequence[ArmFinding]) -> float:
    """How far from zero the second half of training goes."""
    gains = []
    for arm in arms:
        late = arm.gain_curve[len(arm.gain_curve) // 2 :]
        gains += [abs(step.effect) for step in late]
    return max(gains)


def _difference_plot(key: str, title: str, arms: Sequence[ArmFinding], report: ReportData) -> Plot:
    steps, ends = [], []
    for place, arm in enumerate(arms):
        steps += _gain_steps(arm, place, report)
        last = format_signed(arm.gain_curve[-1].effect, 4)
        ends.append(f"{quote_comparison(arm, report.findings.baseline)} ends at {last}")
    chart = _difference_chart(steps, arms, report)
    return Plot(
        key=key,
        title=title,
        caption=f"Mean over seeds on validation text; {BAND_NOTE}. Above zero is better than"
        f" {reference_names(arms)}; {NOT_ANNEALED}.",
        spec=chart_spec(chart, f"{title}: {'; '.join(ends)}.", HEIGHT - 60),
        heading=("arm", "tokens", "mean gain", "95 % band"),
        numbers=tuple(map(_step_cells, steps)),
    )


def _gain_steps(arm: ArmFinding, place: int, report: ReportData) -> Iterator[ChartRow]:
    for step in arm.gain_curve:
        yield {
            KEY_FIELD: row_key(place),
            "arm": arm.name,
            "pair": report.findings.label(arm),
            "tokens": step.step,
            "gain": step.effect,
            "low": step.low,
            "high": step.high,
            "read": format_count(step.step),
            "mean gain": format_signed(step.effect, 4),
            "band": f"{format_signed(step.low, 4)} to {format_signed(step.high, 4)}",
        }


def _step_cells(step: ChartRow) -> tuple[str, ...]:
    return step["pair"], str(step["tokens"]), step["mean gain"], step["band"]


def _difference_chart(
    steps: Sequence[ChartRow], arms: Sequence[ArmFinding], report: ReportData
) -> alt.LayerChart:
    x, base = TOKENS_AXIS, alt.Chart(chart_data(steps))
    pairs = [(arm.name, report.findings.label(arm)) for arm in arms]
    shade, dash = pair_colours(report.order, pairs)
    title = f"gain in {VALIDATION.unit}"
    low, gain = alt.Y("low:Q", title=title), alt.Y("gain:Q", title=title)
    band = base.mark_area(opacity=0.16).encode(
        x=x, y=low, y2=alt.Y2("high:Q"), color=shade, detail=alt.Detail("pair:N")
    )
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=gain, color=shade, strokeDash=dash, detail=alt.Detail("pair:N")
    )
    tooltips = list(map(alt.Tooltip, STEP_TOOLTIPS))
    dots = base.mark_circle(size=40).encode(x=x, y=gain, color=shade, tooltip=tooltips)
    zero = (
        alt.Chart(chart_data([{"zero": 0}]))
        .mark_rule(color=css_colour("muted"), strokeDash=[3, 3])
        .encode(y=alt.Y("zero:Q"))
    )
    return layer_charts(band, zero, line, dots)
