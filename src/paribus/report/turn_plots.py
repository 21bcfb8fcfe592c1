"""Plots of a conversation by turn: what is read, what it costs, how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from typing import Any

import altair as alt

from paribus.analyse.turn_costs import (
    CostRange,
    first_token_seconds,
    next_token_seconds,
)
from paribus.record.turn_study import ArmTurns, TurnCosts, TurnStudy
from paribus.report.charts import (
    KEY_FIELD,
    Plot,
    arm_colours,
    arm_key,
    arm_legend,
    chart_data,
    chart_spec,
    layer_charts,
    parts_unvalidated,
)
from paribus.report.numbers import (
    format_count,
    format_duration,
    format_flops,
    format_size,
)

HEIGHT = 260
# lines that lie upon each other are told apart by their dashes
TURN_DASHES = ([1, 0], [7, 4], [2, 3], [1, 0], [7, 4], [2, 3], [9, 3, 2, 3])
TICK_STEPS = (1, 2, 5)  # of a logarithmic axis
ChartRow = dict[str, Any]


@dataclass(frozen=True)
class _Quantity:
    """What a plot shows of each turn, and how a number of it is written."""

    key: str
    title: str
    axis: str
    cost: Callable[[TurnCosts], CostRange | None]
    number: Callable[[float], str]
    caption: str
    is_log: bool = True
    factor: float = 1  # from a number to what the axis shows


@parts_unvalidated()
def turn_plots(study: TurnStudy) -> list[Plot]:
    """One plot a quantity; times only where they were measured."""
    plots = []
    for quantity in _QUANTITIES:
        lines = _coinciding_lines(study.arms, quantity)
        if lines:
            plots.append(_plot(quantity, lines, _line_order(study.arms, lines)))
    return plots


@dataclass(frozen=True, eq=False)
class _Line:
    """Arms whose costs are the same in every turn, drawn as the first of them."""

    arm: str
    label: str
    turns: tuple[TurnCosts, ...]
    costs: tuple[CostRange, ...]


def _coinciding_lines(arms: Sequence[ArmTurns], quantity: _Quantity) -> list[_Line]:
    costs_by_arm: dict[str, tuple[CostRange, ...]] = {}
    turns_by_arm: dict[str, tuple[TurnCosts, ...]] = {}
    for arm in arms:
        costs = [quantity.cost(turn) for turn in arm.turns]
        known = [cost for cost in costs if cost is not None]
        if len(known) == len(costs):
            costs_by_arm[arm.name], turns_by_arm[arm.name] = tuple(known), arm.turns
    names_by_costs: dict[tuple[CostRange, ...], list[str]] = {}
    for name, costs in costs_by_arm.items():
        names_by_costs.setdefault(costs, []).append(name)
    lines = []
    for costs, names in names_by_costs.items():
        line = _Line(
            arm=names[0], label=" = ".join(names), turns=turns_by_arm[names[0]], costs=costs
        )
        lines.append(line)
    return lines


def _line_order(arms: Sequence[ArmTurns], lines: Sequence[_Line]) -> list[str]:
    """What each arm is called in a plot, in one order for all plots: so an arm has one colour."""
    labels = {line.arm: line.label for line in lines}
    return [labels.get(arm.name, arm.name) for arm in arms]


def _plot(quantity: _Quantity, lines: Sequence[_Line], order: Sequence[str]) -> Plot:
    rows: list[ChartRow] = []
    ends: list[str] = []
    for line in lines:
        rows += _chart_rows(quantity, line)
        first, last = quantity.number(line.costs[0].middle), quantity.number(line.costs[-1].middle)
        ends.append(f"{line.label}: {first} in turn 1, {last} in turn {line.turns[-1].turn}")
    chart = _chart(quantity, rows, order)
    cells = []
    for row in rows:
        cells.append((row["arm"], str(row["turn"]), row["value"]))
    return Plot(
        key=quantity.key,
        title=quantity.title,
        caption=quantity.caption,
        spec=chart_spec(chart, f"{quantity.title}. {'; '.join(ends)}.", HEIGHT),
        heading=("arm", "turn", quantity.axis),
        numbers=tuple(cells),
    )


def _chart_rows(quantity: _Quantity, line: _Line) -> list[ChartRow]:
    rows: list[ChartRow] = []
    for turn, cost in zip(line.turns, line.costs, strict=True):
        row = {
            "arm": line.label,
            "turn": turn.turn,
            "middle": cost.middle * quantity.factor,
            "low": cost.low * quantity.factor,
            "high": cost.high * quantity.factor,
            "value": quantity.number(cost.middle),
        }
        rows.append(row)
    return rows


def _chart(quantity: _Quantity, rows: Sequence[ChartRow], order: Sequence[str]) -> alt.LayerChart:
    base = alt.Chart(chart_data(rows, order))
    n_turns = max(row["turn"] for row in rows)
    x = alt.X(
        "turn:Q",
        title="turn",
        scale=alt.Scale(domain=[1, n_turns], nice=False),
        axis=alt.Axis(grid=False, values=list(range(1, n_turns + 1)), format="d"),
    )
    scale, axis = _value_axis(quantity, rows)
    y = alt.Y("middle:Q", title=quantity.axis, scale=scale, axis=axis)
    low = alt.Y("low:Q", title=quantity.axis, scale=scale, axis=axis)
    drawn = list(dict.fromkeys(row["arm"] for row in rows))
    shade, dash = arm_colours(order, drawn, has_strokes=True), _dashes(order, drawn)
    tooltips = list(map(alt.Tooltip, ("arm:N", "turn:N", "value:N")))
    band = base.mark_area(opacity=0.18).encode(x=x, y=low, y2=alt.Y2("high:Q"), color=shade)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=shade, strokeDash=dash)
    dots = base.mark_circle(size=36).encode(x=x, y=y, color=shade, tooltip=tooltips)
    return layer_charts(band, line, dots)


def _value_axis(quantity: _Quantity, rows: Sequence[ChartRow]) -> tuple[alt.Scale, alt.Axis]:
    """A linear axis from zero, or a logarithmic one with few ticks."""
    if not quantity.is_log:
        return alt.Scale(zero=True), alt.Axis(format="~s", tickCount=5)
    lowest, highest = min(row["low"] for row in rows), max(row["high"] for row in rows)
    bounds = [lowest * 0.8, highest * 1.25]
    ticks = []
    for power in range(floor(log10(bounds[0])), ceil(log10(bounds[1])) + 1):
        ticks += [step * 10.0**power for step in TICK_STEPS]
    inside = [tick for tick in ticks if bounds[0] <= tick <= bounds[1]]
    scale = alt.Scale(type="log", nice=False, domain=bounds)
    return scale, alt.Axis(format="~s", values=inside)


def _dashes(order: Sequence[str], drawn: Sequence[str]) -> alt.StrokeDash:
    keys, dashes = [], []
    for arm in drawn:
        keys.append(arm_key(order, arm))
        dashes.append(TURN_DASHES[order.index(arm) % len(TURN_DASHES)])
    return alt.StrokeDash(
        f"{KEY_FIELD}:N",
        scale=alt.Scale(domain=keys, range=dashes),
        legend=arm_legend(order, drawn, has_strokes=True),
    )


def _count(value: Callable[[TurnCosts], float]) -> Callable[[TurnCosts], CostRange | None]:
    """The reading of a number that was counted."""

    def read(turn: TurnCosts) -> CostRange | None:
        number = value(turn)
        return CostRange(number, number, number)

    return read


_QUANTITIES = (
    _Quantity(
        key="first-token",
        title="Time to the first token",
        axis="milliseconds",
        cost=first_token_seconds,
        number=format_duration,
        factor=1000,
        caption="Measured: medians, with quartiles as bands.",
    ),
    _Quantity(
        key="tokens-read",
        title="Tokens read before the first token",
        axis="tokens",
        cost=_count(lambda turn: turn.n_read),
        number=format_count,
        caption="Counted from the masks; where it was measured, the same.",
    ),
    _Quantity(
        key="flops",
        title="FLOPs before the first token",
        axis="FLOPs",
        cost=_count(lambda turn: turn.first_token_flops_visible),
        number=format_flops,
        caption="Counted, of query-key pairs that the mask lets through.",
    ),
    _Quantity(
        key="cache",
        title="Cache at the end of the turn",
        axis="bytes",
        cost=_count(lambda turn: turn.cache_bytes),
        number=format_size,
        caption="Counted from the masks; where it was measured, the same.",
        is_log=False,
    ),
    _Quantity(
        key="next-token",
        title="Time of each token after the first",
        axis="milliseconds",
        cost=next_token_seconds,
        number=format_duration,
        factor=1000,
        caption="Measured: medians, with quartiles as bands.",
        is_log=False,
    ),
)
