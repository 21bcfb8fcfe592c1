"""Plots of a conversation by turn: what is read, what it costs, how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from paribus.analyse.turn_costs import (
    CostRange,
    first_token_seconds,
    next_token_seconds,
)
from paribus.record.turn_study import ArmTurns, TurnCosts, TurnStudy
from paribus.report.charts import (
    Plot,
    arm_colours,
    arm_dashes,
    chart_data,
    chart_spec,
    layer_charts,
)
from paribus.report.numbers import (
    format_count,
    format_duration,
    format_flops,
    format_size,
)

HEIGHT = 260
ChartRow = dict[str, Any]


@dataclass(frozen=True)
class _Quantity:
    """What a plot shows of each turn, and how a number of it is written."""

    key: str
    title: str
    axis: str
    cost: Callable[[TurnCosts], CostRange | None]
    number: Callable[[float], str]
    axis_format: str
    caption: str
    is_log: bool = True


def turn_plots(study: TurnStudy) -> list[Plot]:
    """One plot a quantity; times only where they were measured."""
    plots = []
    for quantity in _QUANTITIES:
        lines = _coinciding_lines(study.arms, quantity)
        if lines:
            plots.append(_plot(quantity, lines))
    return plots


@dataclass(frozen=True, eq=False)
class _Line:
    """Arms whose costs are the same in every turn, drawn as one."""

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
        lines.append(_Line(" = ".join(names), turns_by_arm[names[0]], costs))
    return lines


def _plot(quantity: _Quantity, lines: Sequence[_Line]) -> Plot:
    rows: list[ChartRow] = []
    ends: list[str] = []
    for line in lines:
        rows += _chart_rows(quantity, line)
        first, last = quantity.number(line.costs[0].middle), quantity.number(line.costs[-1].middle)
        ends.append(f"{line.label}: {first} in turn 1, {last} in turn {line.turns[-1].turn}")
    chart = _chart(quantity, rows, [line.label for line in lines])
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
            "middle": cost.middle,
            "low": cost.low,
            "high": cost.high,
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
    scale = alt.Scale(
        type="log" if quantity.is_log else "linear", nice=True, zero=not quantity.is_log
    )
    axis = alt.Axis(format=quantity.axis_format, tickCount=5)
    y = alt.Y("middle:Q", title=quantity.axis, scale=scale, axis=axis)
    low = alt.Y("low:Q", title=quantity.axis, scale=scale, axis=axis)
    shade, dash = arm_colours(order), arm_dashes(order)
    tooltips = list(map(alt.Tooltip, ("arm:N", "turn:N", "value:N")))
    band = base.mark_area(opacity=0.18).encode(x=x, y=low, y2="high:Q", color=shade)
    line = base.mark_line(strokeWidth=2).encode(x=x, y=y, color=shade, strokeDash=dash)
    dots = base.mark_circle(size=36).encode(x=x, y=y, color=shade, tooltip=tooltips)
    return layer_charts(band, line, dots)


def _count(value: Callable[[TurnCosts], float]) -> Callable[[TurnCosts], CostRange | None]:
    """The reading of what was counted, where it is no zero."""

    def read(turn: TurnCosts) -> CostRange | None:
        number = value(turn)
        return CostRange(number, number, number)

    return read


_QUANTITIES = (
    _Quantity(
        key="first-token",
        title="Time to the first token",
        axis="seconds",
        cost=first_token_seconds,
        number=format_duration,
        axis_format="~s",
        caption="Measured: medians, with quartiles as bands.",
    ),
    _Quantity(
        key="tokens-read",
        title="Tokens read before the first token",
        axis="tokens",
        cost=_count(lambda turn: turn.n_read),
        number=format_count,
        axis_format="~s",
        caption="Counted from the masks; where it was measured, the same.",
    ),
    _Quantity(
        key="flops",
        title="FLOPs before the first token",
        axis="FLOPs",
        cost=_count(lambda turn: turn.first_token_flops_visible),
        number=format_flops,
        axis_format="~s",
        caption="Counted, of query-key pairs that the mask lets through.",
    ),
    _Quantity(
        key="cache",
        title="Cache at the end of the turn",
        axis="bytes",
        cost=_count(lambda turn: turn.cache_bytes),
        number=format_size,
        axis_format="~s",
        caption="Counted from the masks; where it was measured, the same.",
        is_log=False,
    ),
    _Quantity(
        key="next-token",
        title="Time of each token after the first",
        axis="seconds",
        cost=next_token_seconds,
        number=format_duration,
        axis_format="~s",
        caption="Measured: medians, with quartiles as bands.",
        is_log=False,
    ),
)
