"""The effect plot: each seed a point, the mean, its two intervals, and the margin as a band.

The thick bar is the inner interval, which decides on the margin, the thin bar the outer one, which
decides on a difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paribus.analyse import Comparison
from paribus.analyse.findings import ArmFinding
from paribus.report.charts import (
    Plot,
    chart_spec,
)
from paribus.report.csv_tables import run_names
from paribus.report.effect_chart import effect_chart, label_lines, margins_of
from paribus.report.gain_chart import (
    LEADING,
    SEPARATE_PLOT_RATIO,
    compared_arms,
    reference_names,
    split_control,
)
from paribus.report.intervals import describe_deciding, format_interval, percent_level
from paribus.report.numbers import MAX_LISTED, format_plain, format_signed, significant
from paribus.report.report_data import ReportData

ROW, LOW_ROW, EDGE = 64, 46, 12  # pixels of an arm, of one of many arms, and of the edge


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
            caption="Read it like the plot above.",
        ),
    ]


def _comparisons(arms: Sequence[ArmFinding]) -> Iterator[Comparison]:
    for arm in arms:
        if arm.judgement.comparison is not None:
            yield arm.judgement.comparison


def _max_interval_end(arms: Sequence[ArmFinding]) -> float:
    ends = [0.0]
    for comparison in _comparisons(arms):
        ends += [abs(comparison.low), abs(comparison.high)]
    return max(ends)


def _effect_plot(key: str, title: str, arms: Sequence[ArmFinding], report: ReportData) -> Plot:
    seeds, descriptions = [], []
    for arm in arms:
        seeds += _seed_points(arm, report)
        comparison = _describe_comparison(arm.judgement.comparison)
        descriptions.append(f"{report.findings.label(arm)}: {comparison}")
    described = f"{title}: {'; '.join(descriptions)}."
    spec = chart_spec(effect_chart(arms, seeds, report), described, _height(arms, report))
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
    n_lines = max(len(label_lines(arm, report)) for arm in arms)
    if len(arms) <= MAX_LISTED:
        row = ROW
    else:
        row = LOW_ROW
    return max(row, LEADING * n_lines + EDGE) * len(arms) + EDGE


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
    comparison = next(_comparisons(arms))
    if comparison.open_ended:
        return "the bar its interval"
    inner, outer = percent_level(comparison.inner_level), percent_level(comparison.level)
    return (
        f"the bars its intervals: thin at {outer}, to show a difference, thick at {inner}, to show"
        " that there is none"
    )


def _describe_band(arms: Sequence[ArmFinding]) -> str:
    different = set(margins_of(arms)) - {None}
    if not different:
        return ""
    if len(different) > 1:
        return " The grey band is the margin of each."
    (margin,) = different
    assert margin is not None
    band = f" The grey band is the margin, ±{significant(margin)}"
    if any(one.margins for one in _comparisons(arms)):
        return f"{band} on average over seeds."
    return f"{band}."


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
    deciding = describe_deciding(comparison)
    outer = (
        f"{format_signed(comparison.effect, 4)}, {percent_level(comparison.level)} interval"
        f" {format_interval(comparison.low, comparison.high, 4)}"
    )
    if deciding:
        return f"{outer}; {deciding}"
    return outer
