"""The effect plot: each seed a point, the mean, its interval, and the margin as a band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import altair as alt

from paribus.analyse import Comparison
from paribus.analyse.findings import UNIT, Arm
from paribus.report.charts import Plot, arm_colours, colour, data, layered, spec_of
from paribus.report.material import Material
from paribus.report.numbers import decimals, plain, signed

ROW, EDGE = 64, 12  # pixels an arm takes, and all of them together
BROKEN = "split(replace(datum.label, ' against ', '@against '), '@')"  # a label in two lines
APART = 3  # a control whose effect is so many times larger has a plot of its own


def effects(material: Material) -> list[Plot]:
    """All arms in one plot, but for a positive control that would leave the others no room."""
    compared = [arm for arm in material.found.arms if arm.judgement.comparison is not None]
    if not compared:
        return []
    control = [arm for arm in compared if arm.name == material.control]
    others = [arm for arm in compared if arm.name != material.control]
    if not control or not others or _reach(control) <= APART * _reach(others):
        return [_plot("effect", _title(compared, material), compared, material)]
    return [
        _plot("effect", _title(others, material), others, material),
        replace(
            _plot("effect-control", "The positive control, on a scale of its own", control, material),
            caption="To be read as the plot above.",
        ),
    ]


def _reach(arms: Sequence[Arm]) -> float:
    ends = [abs(end) for arm in arms if (made := arm.judgement.comparison) for end in (made.low, made.high)]
    return max(ends, default=0.0)


def _plot(key: str, title: str, arms: Sequence[Arm], material: Material) -> Plot:
    seeds = [row for arm in arms for row in _seeds(arm, material)]
    described = "; ".join(f"{material.found.label(arm)}: {_told(arm.judgement.comparison)}" for arm in arms)
    spec = spec_of(_chart(arms, seeds, material), f"{title}: {described}.", ROW * len(arms) + EDGE)
    numbers = tuple((row["pair"], str(row["seed"]), row["baseline"], row["score"], row["gained"]) for row in seeds)
    before = "baseline" if _with_baseline(arms, material) else "judged against"
    return Plot(key, title, _caption(arms, material), spec, ("arm", "seed", before, "arm's score", "gain"), numbers)


def _title(arms: Sequence[Arm], material: Material) -> str:
    return f"Gain over the {'baseline' if _with_baseline(arms, material) else 'arm it is judged against'}"


def _with_baseline(arms: Sequence[Arm], material: Material) -> bool:
    return all(arm.against == material.found.baseline for arm in arms)


def partners(arms: Sequence[Arm]) -> str:
    """What these are judged against: one arm's name, or each its own."""
    names = {arm.against for arm in arms}
    return names.pop() if len(names) == 1 else "the arm that each is judged against"


def _caption(arms: Sequence[Arm], material: Material) -> str:
    margin = material.found.margin
    band = "" if margin is None else f" The grey band is the margin, ±{margin:.3g}."
    return (
        f"Each small point is a seed; the diamond is their mean and the bar its interval. Right of zero is better than "
        f"{partners(arms)}.{band}"
    )


def _chart(arms: Sequence[Arm], seeds: Sequence[dict[str, Any]], material: Material) -> alt.LayerChart:
    rows = alt.Y("pair:N", title=None, sort=[material.found.label(arm) for arm in arms],
                 axis=alt.Axis(labelFontSize=13, labelColor=colour("ink"), labelLimit=120, grid=False,
                               labelExpr=alt.Undefined if _with_baseline(arms, material) else BROKEN))  # fmt: skip
    means = alt.Chart(data([_mean(arm, material) for arm in arms]))
    shade = arm_colours(material.order).legend(None)
    told = [alt.Tooltip(name) for name in ("pair:N", "effect:N", "interval:N", "verdict:N")]
    each = [alt.Tooltip(name) for name in ("pair:N", "seed:N", "gained:N", "run:N", "baseline run:N")]
    interval = means.mark_rule(strokeWidth=3, strokeCap="round").encode(
        x=_x("low:Q"), x2="high:Q", y=rows, color=shade, tooltip=told
    )
    mean = means.mark_point(shape="diamond", size=130, filled=True, opacity=1).encode(
        x=_x("gain:Q"), y=rows, color=shade, tooltip=told
    )
    points = alt.Chart(data(seeds)).mark_circle(size=46, opacity=0.65, yOffset=15).encode(
        x=_x("gain:Q"), y=rows, color=shade, tooltip=each
    )  # fmt: skip
    zero = alt.Chart(data([{"zero": 0}])).mark_rule(color=colour("muted"), strokeDash=[3, 3]).encode(x=_x("zero:Q"))
    return layered(*_band(material.found.margin), zero, interval, mean, points)


def _x(field: str) -> alt.X:
    return alt.X(
        field, title=f"gain in {UNIT} (positive is better)", axis=alt.Axis(tickCount=5), scale=alt.Scale(padding=14)
    )


def _band(margin: float | None) -> list[alt.Chart]:
    if margin is None:
        return []
    ends = [{"from": -margin, "to": margin}]
    return [alt.Chart(data(ends)).mark_rect(color=colour("band")).encode(x=_x("from:Q"), x2="to:Q")]


def _mean(arm: Arm, material: Material) -> dict[str, Any]:
    made = arm.judgement.comparison
    assert made is not None
    digits = decimals((made.high - made.low) / 2)
    return {
        "arm": arm.name, "pair": material.found.label(arm), "gain": made.effect, "low": made.low, "high": made.high,
        "effect": signed(made.effect, digits),
        "interval": f"{signed(made.low, digits)} to {signed(made.high, digits)}", "verdict": str(arm.judgement.verdict),
    }  # fmt: skip


def _seeds(arm: Arm, material: Material) -> list[dict[str, Any]]:
    runs = {(row["arm"], row["seed"]): row["run"] for row in material.found.reported}
    return [
        {
            "arm": arm.name, "pair": material.found.label(arm), "seed": one.seed, "gain": one.gain,
            "gained": signed(one.gain, 5),
            "baseline": plain(one.baseline, 4), "score": plain(one.arm, 4), "run": runs[arm.name, one.seed],
            "baseline run": runs[arm.against, one.seed],
        }
        for one in arm.judgement.seeds
        if one.gain is not None and one.baseline is not None and one.arm is not None
    ]  # fmt: skip


def _told(made: Comparison | None) -> str:
    return "" if made is None else f"{signed(made.effect, 4)}, interval {signed(made.low, 4)} to {signed(made.high, 4)}"
