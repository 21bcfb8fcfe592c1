"""Learning curves, a thin line a seed; the difference along training, with a pointwise band;
rate curves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from paribus.analyse import validation_bits_per_byte, validation_rows
from paribus.analyse.curves import BAND_NOTE, NOT_ANNEALED
from paribus.analyse.findings import UNIT, ArmFinding
from paribus.analyse.rate_fit import parabola_points
from paribus.report.charts import (
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
)
from paribus.report.effect_plot import SEPARATE_PLOT_RATIO, reference_names
from paribus.report.numbers import format_count, format_signed, score, significant
from paribus.report.report_data import ReportData

HEIGHT = 300
TOKENS_AXIS = alt.X(
    "tokens:Q",
    scale=alt.Scale(type="log", nice=False),
    title="tokens read",
    axis=alt.Axis(format="~s", grid=False, tickCount=6, labelOverlap=True),
)
BITS_AXIS = alt.Y("bits:Q", title=f"{UNIT}, validation text", scale=alt.Scale(zero=False))


def learning_plot(report: ReportData) -> Plot | None:
    """Held-out bits a byte along training; arms that are asked other questions than the
    baseline are left out.
    """
    arms = [arm for arm in report.order if report.has_same_task(arm)]
    points = [point for arm in arms for point in _points(arm, report)]
    drawn = [arm for arm in arms if any(one["arm"] == arm for one in points)]
    if not drawn:
        return None
    besides = _omitted_note(
        "trained on another question", [arm for arm in report.order if arm not in arms]
    )
    besides += _omitted_note(
        "without a run that trained", [arm for arm in arms if arm not in drawn]
    )
    x, y = TOKENS_AXIS, BITS_AXIS
    base, shade, dash = (
        alt.Chart(chart_data(points, report.order)),
        arm_colours(report.order, drawn),
        arm_dashes(report.order, drawn),
    )
    lines = base.mark_line(strokeWidth=1.2, opacity=0.75).encode(
        x=x, y=y, color=shade, strokeDash=dash, detail="run:N"
    )
    told = [alt.Tooltip(name) for name in ("arm:N", "seed:N", "run:N", "read:N", "score:N")]
    dots = base.mark_circle(size=70, opacity=0).encode(x=x, y=y, color=shade, tooltip=told)
    ends = "; ".join(f"{arm} ends at {_final_scores(arm, points)}" for arm in drawn)
    return Plot(
        "learning",
        "Learning curves",
        "A thin line a seed, on validation text under the training's own question. Lower is"
        f" better; {NOT_ANNEALED}.{besides}",
        chart_spec(layer_charts(lines, dots), f"Learning curves: {ends}.", HEIGHT),
        ("arm", "seed", "tokens", UNIT),
        tuple((one["arm"], str(one["seed"]), str(one["tokens"]), one["score"]) for one in points),
    )


def _omitted_note(why: str, arms: Sequence[str]) -> str:
    if arms:
        return f" Left out, {why}: {', '.join(arms)}."
    return ""


def _points(arm: str, report: ReportData) -> list[dict[str, Any]]:
    names = {(row["arm"], row["seed"]): row["run"] for row in report.findings.reported_rows}
    return [
        {
            "arm": arm,
            "seed": seed,
            "run": names[arm, seed],
            "tokens": row["tokens_read"],
            "bits": validation_bits_per_byte(row),
            "read": format_count(row["tokens_read"]),
            "score": score(validation_bits_per_byte(row)),
        }
        for seed, rows in sorted(report.findings.runs[arm].items())
        for row in validation_rows(rows)
    ]


def _final_scores(arm: str, points: Sequence[dict[str, Any]]) -> str:
    own = [one for one in points if one["arm"] == arm]
    last = max(one["tokens"] for one in own)
    return ", ".join(one["score"] for one in own if one["tokens"] == last)


def difference_plots(report: ReportData) -> list[Plot]:
    """The gain along training; a positive control that would flatten the others has a plot of
    its own.
    """
    arms = [
        arm
        for arm in report.findings.arms
        if arm.gain_curve and report.has_same_task(arm.name, arm.against)
    ]
    control = [arm for arm in arms if arm.name == report.control]
    others = [arm for arm in arms if arm.name != report.control]
    if (
        control
        and others
        and _max_late_gain(control) > SEPARATE_PLOT_RATIO * _max_late_gain(others)
    ):
        return [
            _difference_plot("difference", "The gain along training", others, report),
            replace(
                _difference_plot(
                    "difference-control", "The same for the positive control", control, report
                ),
                caption=f"To be read as the plot above; {NOT_ANNEALED}.",
            ),
        ]
    if arms:
        return [_difference_plot("difference", "The gain along training", arms, report)]
    return []


def _max_late_gain(arms: Sequence[ArmFinding]) -> float:
    """How far from zero the second half of training goes."""
    return max(
        abs(step.effect) for arm in arms for step in arm.gain_curve[len(arm.gain_curve) // 2 :]
    )


def _difference_plot(key: str, title: str, arms: Sequence[ArmFinding], report: ReportData) -> Plot:
    steps = [
        {
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
        for arm in arms
        for step in arm.gain_curve
    ]
    x = TOKENS_AXIS
    names = list(dict.fromkeys(arm.name for arm in arms))
    base, shade, dash = (
        alt.Chart(chart_data(steps, report.order)),
        arm_colours(report.order, names),
        arm_dashes(report.order, names),
    )
    title_y = f"gain in {UNIT}"
    band = base.mark_area(opacity=0.16).encode(
        x=x, y=alt.Y("low:Q", title=title_y), y2="high:Q", color=shade, detail="pair:N"
    )
    line = base.mark_line(strokeWidth=2).encode(
        x=x, y=alt.Y("gain:Q", title=title_y), color=shade, strokeDash=dash, detail="pair:N"
    )
    told = [alt.Tooltip(name) for name in ("pair:N", "read:N", "mean gain:N", "band:N")]
    dots = base.mark_circle(size=40).encode(
        x=x, y=alt.Y("gain:Q", title=title_y), color=shade, tooltip=told
    )
    zero = (
        alt.Chart(chart_data([{"zero": 0}]))
        .mark_rule(color=css_colour("muted"), strokeDash=[3, 3])
        .encode(y="zero:Q")
    )
    last = "; ".join(
        f"{report.findings.label(arm)} ends at {format_signed(arm.gain_curve[-1].effect, 4)}"
        for arm in arms
    )
    return Plot(
        key,
        title,
        f"Mean over seeds on validation text; {BAND_NOTE}. Above zero is better than"
        f" {reference_names(arms)}; {NOT_ANNEALED}.",
        chart_spec(layer_charts(band, zero, line, dots), f"{title}: {last}.", HEIGHT - 60),
        ("arm", "tokens", "mean gain", "95 % band"),
        tuple((one["pair"], str(one["tokens"]), one["mean gain"], one["band"]) for one in steps),
    )


def rate_plot(report: ReportData) -> Plot | None:
    """What every arm scored at every rate of its sweep, the parabola, and the rate that was
    taken.
    """
    found = report.findings.rates
    if found is None:
        return None
    points = [
        {"arm": arm, "rate": rate, "bits": loss, "score": score(loss), "at": significant(rate)}
        for arm in report.order
        for rate, loss in found[arm]["points"]
        if loss is not None
    ]
    grid = sorted({rate for own in found.values() for rate in _rate_grid(own)})
    x = alt.X(
        "rate:Q",
        scale=alt.Scale(type="log", base=2, nice=False),
        title="learning rate",
        axis=alt.Axis(format=".3~g", values=grid, grid=False, labelOverlap=True),
    )
    y, shade = (
        alt.Y("bits:Q", title=f"{UNIT}, validation text", scale=alt.Scale(zero=False)),
        arm_colours(report.order),
    )
    told = [alt.Tooltip(name) for name in ("arm:N", "at:N", "score:N")]
    dots = (
        alt.Chart(chart_data(points, report.order))
        .mark_circle(size=50, opacity=0.8)
        .encode(x=x, y=y, color=shade, tooltip=told)
    )
    fits = [one for arm in report.order for one in _parabola(arm, found[arm])]
    lines = (
        alt.Chart(chart_data(fits, report.order))
        .mark_line(strokeWidth=1.2, opacity=0.7)
        .encode(x=x, y=y, color=shade, strokeDash=arm_dashes(report.order))
    )
    taken = [{"arm": arm, "rate": found[arm]["rate"]} for arm in report.order]
    rules = (
        alt.Chart(chart_data(taken, report.order))
        .mark_rule(strokeDash=[2, 3])
        .encode(x=x, color=shade)
    )
    said = "; ".join(f"{arm} {significant(found[arm]['rate'])}" for arm in report.order)
    return Plot(
        "rates",
        "Rate curves",
        "Every point is a run of a sweep, whose seeds are not reported; the curve is the parabola"
        " in log₂ rate over the rates it was fitted to, the dashed line the rate that was taken.",
        chart_spec(layer_charts(lines, rules, dots), f"Rate curves; taken were {said}.", HEIGHT),
        ("arm", "rate", UNIT),
        tuple((one["arm"], one["at"], one["score"]) for one in points),
    )


def _rate_grid(sweep: dict[str, Any]) -> list[float]:
    """The rates that every arm was swept at; an older study does not say which, and had no
    others.
    """
    return sweep.get("grid") or [rate for rate, loss in sweep["points"] if loss is not None]


def _parabola(arm: str, sweep: dict[str, Any]) -> list[dict[str, Any]]:
    fit = sweep["optimum"]["coefficients"]
    rated = sweep["optimum"].get("fitted") or [
        rate for rate, loss in sweep["points"] if loss is not None
    ]
    if fit is None or not rated:
        return []
    return [{"arm": arm, "rate": rate, "bits": loss} for rate, loss in parabola_points(fit, rated)]
