"""The effect plot: each seed a point, the mean, its two intervals, and the margin as a band.

The thick bar is the inner interval, which decides on the margin, the thin bar the outer one, which
decides on a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from paribus.analyse import Comparison
from paribus.analyse.findings import ArmFinding
from paribus.report.charts import (
    Plot,
    arm_colours,
    chart_data,
    chart_spec,
    css_colour,
    layer_charts,
    multiline_label_expression,
    row_key,
)
from paribus.report.csv_tables import run_names
from paribus.report.gain_chart import (
    LEADING,
    SEPARATE_PLOT_RATIO,
    break_name,
    compared_arms,
    finite_end,
    gain_axis,
    reference_names,
    split_control,
    zero_line,
)
from paribus.report.intervals import describe_deciding, digits_of, format_interval, percent_level
from paribus.report.numbers import MAX_LISTED, format_plain, format_signed, significant
from paribus.report.report_data import ReportData

ROW, LOW_ROW, EDGE = 64, 46, 12  # pixels an arm takes, one of many, and all of them together
THIN, THICK = 1.5, 5  # pixels of the outer and of the inner interval
MEAN_TOOLTIPS = ("pair:N", "effect:N", "interval:N", "decides:N", "verdict:N")
SEED_TOOLTIPS = ("pair:N", "seed:N", "gained:N", "run:N", "baseline run:N")


def effect_plots(report: ReportData) -> list[Plot]:
    """All arms in one plot, but for a positive control that would leave the others no room."""
    compared = compared_arms(report)
    if not compared:
        return []
    control, others = split_control(compared, report)
    if (
        not control
        or not others
        or _max_interval_end(control) <= SEPARATE_PLOT_RATIO * _max_interval_end(others)
    ):
        return [_effect_plot("effect", _title(compared, report), compared, report)]
    return [
        _effect_plot("effect", _title(others, report), others, report),
        replace(
            _effect_plot(
                "effect-control", "The positive control, on a scale of its own", control, report
            ),
            caption="To be read as the plot above.",
        ),
    ]


def _comparisons(arms: Sequence[ArmFinding]) -> Iterator[Comparison]:
    for arm in arms:
        if arm.judgement.comparison is not None:
            yield arm.judgement.comparison


def _max_interval_end(arms: Sequence[ArmFinding]) -> float:
    ends = [0.0]
    for made in _comparisons(arms):
        ends += [abs(made.low), abs(made.high)]
    return max(ends)


def _effect_plot(key: str, title: str, arms: Sequence[ArmFinding], report: ReportData) -> Plot:
    seeds, descriptions = [], []
    for arm in arms:
        seeds += _seed_points(arm, report)
        comparison = _describe_comparison(arm.judgement.comparison)
        descriptions.append(f"{report.findings.label(arm)}: {comparison}")
    described = f"{title}: {'; '.join(descriptions)}."
    spec = chart_spec(_chart(arms, seeds, report), described, _height(arms, report))
    if len(arms) > MAX_LISTED:
        # wide labels leave a narrow plot less room than its title
        spec["config"]["axisX"] = {"titleAnchor": "end"}
    if _are_against_baseline(arms, report):
        before = "baseline"
    else:
        before = "judged against"
    return Plot(
        key=key,
        title=title,
        caption=_caption(arms, report),
        spec=spec,
        heading=("arm", "seed", before, "arm's score", "gain"),
        numbers=tuple(map(_seed_cells, seeds)),
    )


def _seed_cells(point: Mapping[str, Any]) -> tuple[str, ...]:
    return point["pair"], str(point["seed"]), point["baseline"], point["score"], point["gained"]


def _height(arms: Sequence[ArmFinding], report: ReportData) -> int:
    n_lines = max(len(_label_lines(arm, report)) for arm in arms)
    if len(arms) <= MAX_LISTED:
        row = ROW
    else:
        row = LOW_ROW
    return max(row, LEADING * n_lines + EDGE) * len(arms) + EDGE


def _label_lines(arm: ArmFinding, report: ReportData) -> list[str]:
    """A comparison's label in lines: its arm, and what it is judged against where that is not
    the baseline.
    """
    if arm.against == report.findings.baseline:
        against = []
    else:
        against = break_name(f"against {arm.against}")
    return [*break_name(arm.name), *against]


def _title(arms: Sequence[ArmFinding], report: ReportData) -> str:
    if _are_against_baseline(arms, report):
        return "Gain over the baseline"
    return "Gain over the arm it is judged against"


def _are_against_baseline(arms: Sequence[ArmFinding], report: ReportData) -> bool:
    return all(arm.against == report.findings.baseline for arm in arms)


def _caption(arms: Sequence[ArmFinding], report: ReportData) -> str:
    return (
        f"Each small point is a seed; the diamond is their mean and {_describe_bars(arms)}. Right"
        f" of zero is better than {reference_names(arms)}.{_describe_band(arms)}"
    )


def _describe_bars(arms: Sequence[ArmFinding]) -> str:
    """What the bars are; of an open number of seeds both intervals are one."""
    made = next(_comparisons(arms))
    if made.open_ended:
        return "the bar its interval"
    inner, outer = percent_level(made.inner_level), percent_level(made.level)
    return (
        f"the bars its intervals: thin at {outer}, to show a difference, thick at {inner}, to show"
        " that there is none"
    )


def _margins(arms: Sequence[ArmFinding]) -> list[float | None]:
    """The margin of each comparison, on average over seeds."""
    margins = []
    for arm in arms:
        if arm.judgement.comparison is None:
            margins.append(None)
        else:
            margins.append(arm.judgement.comparison.margin)
    return margins


def _describe_band(arms: Sequence[ArmFinding]) -> str:
    different = set(_margins(arms)) - {None}
    if not different:
        return ""
    if len(different) > 1:
        return " The grey band is the margin of each."
    (margin,) = different
    assert margin is not None
    band = f" The grey band is the margin, ±{significant(margin)}"
    if any(made.margins for made in _comparisons(arms)):
        return f"{band} on average over seeds."
    return f"{band}."


def _chart(
    arms: Sequence[ArmFinding], seeds: Sequence[dict[str, Any]], report: ReportData
) -> alt.LayerChart:
    rows, unit = _rows_axis(arms, report), report.measure.unit
    each_mean = _mean_points(arms, report)
    means = alt.Chart(chart_data(each_mean, report.order))
    bounded = alt.Chart(chart_data(list(filter(_has_interval, each_mean)), report.order))
    shade = arm_colours(report.order).legend(None)
    of_mean = list(map(alt.Tooltip, MEAN_TOOLTIPS))
    of_seed = list(map(alt.Tooltip, SEED_TOOLTIPS))
    outer = bounded.mark_rule(strokeWidth=THIN, strokeCap="round").encode(
        x=gain_axis("low:Q", unit), x2="high:Q", y=rows, color=shade, tooltip=of_mean
    )
    inner = bounded.mark_rule(strokeWidth=THICK, strokeCap="round").encode(
        x=gain_axis("inner_low:Q", unit), x2="inner_high:Q", y=rows, color=shade, tooltip=of_mean
    )
    mean = means.mark_point(shape="diamond", size=130, filled=True, opacity=1).encode(
        x=gain_axis("gain:Q", unit), y=rows, color=shade, tooltip=of_mean
    )
    points = (
        alt.Chart(chart_data(_placed_seeds(seeds, arms, report), report.order))
        .mark_circle(size=46, opacity=0.65, yOffset=15)
        .encode(x=gain_axis("gain:Q", unit), y=rows, color=shade, tooltip=of_seed)
    )
    band = _margin_band(_margins(arms), rows, unit)
    return layer_charts(*band, zero_line(unit), outer, inner, mean, points)


def _rows_axis(arms: Sequence[ArmFinding], report: ReportData) -> alt.Y:
    if len(arms) <= MAX_LISTED:
        size = 13
    else:
        size = 12
    labels = alt.Axis(
        labelFontSize=size,
        labelColor=css_colour("ink"),
        labelLimit=160,
        labelExpr=multiline_label_expression([_label_lines(arm, report) for arm in arms]),
        grid=False,
    )
    return alt.Y("row:N", title=None, sort=list(map(row_key, range(len(arms)))), axis=labels)


def _mean_points(arms: Sequence[ArmFinding], report: ReportData) -> list[dict[str, Any]]:
    points = []
    for place, arm in enumerate(arms):
        points.append({**_mean_point(arm, report), "row": row_key(place)})
    return points


def _placed_seeds(
    seeds: Sequence[dict[str, Any]], arms: Sequence[ArmFinding], report: ReportData
) -> list[dict[str, Any]]:
    """Every seed's point with the row of its comparison."""
    labels = [report.findings.label(arm) for arm in arms]
    points = []
    for seed in seeds:
        points.append({**seed, "row": row_key(labels.index(seed["pair"]))})
    return points


def _has_interval(point: Mapping[str, Any]) -> bool:
    return point["low"] is not None


def _margin_band(margins: Sequence[float | None], rows: alt.Y, unit: str) -> list[alt.Chart]:
    """The margin behind all rows where it is one, else behind each row its own."""
    ends = []
    for place, margin in enumerate(margins):
        if margin is not None:
            ends.append({"from": -margin, "to": margin, "row": row_key(place)})
    if not ends:
        return []
    x, shade = gain_axis("from:Q", unit), css_colour("band")
    if len(ends) == len(margins) and len(set(margins)) == 1:
        return [alt.Chart(chart_data(ends[:1])).mark_rect(color=shade).encode(x=x, x2="to:Q")]
    return [alt.Chart(chart_data(ends)).mark_rect(color=shade).encode(x=x, x2="to:Q", y=rows)]


def _mean_point(arm: ArmFinding, report: ReportData) -> dict[str, Any]:
    made = arm.judgement.comparison
    assert made is not None
    digits = digits_of(made)
    return {
        "arm": arm.name,
        "pair": report.findings.label(arm),
        "gain": made.effect,
        "low": finite_end(made.low),
        "high": finite_end(made.high),
        "inner_low": finite_end(made.inner_low),
        "inner_high": finite_end(made.inner_high),
        "effect": format_signed(made.effect, digits),
        "interval": (
            f"{format_interval(made.low, made.high, digits)}, at {percent_level(made.level)}"
        ),
        "decides": describe_deciding(made) or "this interval",
        "verdict": str(arm.judgement.verdict),
    }


def _seed_points(arm: ArmFinding, report: ReportData) -> Iterator[dict[str, Any]]:
    runs = run_names(report)
    for one in arm.judgement.seeds:
        if one.gain is None or one.baseline is None or one.arm is None:
            continue
        yield {
            "arm": arm.name,
            "pair": report.findings.label(arm),
            "seed": one.seed,
            "gain": one.gain,
            "gained": format_signed(one.gain, 5),
            "baseline": format_plain(one.baseline, 4),
            "score": format_plain(one.arm, 4),
            "run": runs[arm.name, one.seed],
            "baseline run": runs[arm.against, one.seed],
        }


def _describe_comparison(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    decided = describe_deciding(comparison)
    outer = (
        f"{format_signed(comparison.effect, 4)}, {percent_level(comparison.level)} interval"
        f" {format_interval(comparison.low, comparison.high, 4)}"
    )
    if decided:
        return f"{outer}; {decided}"
    return outer
