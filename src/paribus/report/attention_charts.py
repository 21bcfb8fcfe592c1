"""Attention maps: a square for each block of queries and keys, with the mask outlined."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from paribus.record.attention_maps import MAX_LEVEL, AttentionMap
from paribus.report.charts import SEPARATOR, chart_data, css_colour, layer_charts
from paribus.report.numbers import whole_percent
from paribus.report.probe_panels import (
    DECODER,
    FILL,
    MAX_PANELS,
    Panel,
    PanelPlace,
    ProbeFigure,
    number_text,
    panel_title,
    probe_figure,
)

SIDE = 216  # pixels: about as wide as a panel has room beside its axis
FILE_SIDE = 300
N_LISTED = 10  # heaviest blocks in the table
Segment = tuple[int, int, int, int]  # x, y, x2, y2
CAPTION = (
    "How much each query (a row, from the top down) takes of each key (a column), while the model"
    " reads one text. A stronger colour is more, on a scale of square roots, for each head its own."
    " The line is the edge of what the mask lets a query see. Long texts are drawn as means over"
    " blocks of tokens. This is one text and a few heads: it shows what attention looks like, not"
    " what is usual, and a weight is not by itself an influence on the answer."
)


def attention_figure(maps: Sequence[AttentionMap]) -> ProbeFigure | None:
    """One panel per map; of many, as many of each run as there is room for."""
    runs = {one.run for one in maps}
    with_encoder = {one.run for one in maps if one.stack == "encoder"}
    caption, drawn = CAPTION, maps_shown(maps)
    if len(drawn) < len(maps):
        caption += f" {len(drawn)} of {len(maps)} maps are drawn, some of each run."
    panels = []
    for one in drawn:
        panels.append(_map_panel(one, len(runs) > 1, one.run in with_encoder))
    return probe_figure("attention-maps", "Attention maps", caption, panels, FILE_SIDE)


def maps_shown(maps: Sequence[AttentionMap]) -> list[AttentionMap]:
    """At most MAX_PANELS maps, in their order: the first of each run, then the second of each."""
    n_before: dict[str, int] = {}
    ranked = []
    for place, one in enumerate(maps):
        ranked.append((n_before.get(one.run, 0), place))
        n_before[one.run] = n_before.get(one.run, 0) + 1
    return [maps[place] for place in sorted(place for _, place in sorted(ranked)[:MAX_PANELS])]


def _map_panel(one: AttentionMap, has_many_runs: bool, has_encoder: bool) -> Panel:
    place = PanelPlace(one.stack, one.branch).label(DECODER if has_encoder else "")
    head = f"layer {one.layer}, head {one.head}"
    title = panel_title(one.run if has_many_runs else "", place, head)
    return Panel(
        title=title,
        chart=layer_charts(_squares(one), _outline(one)),
        height=SIDE,
        description=_describe(one),
        heading=("query", "key", "mean weight"),
        numbers=tuple(_heaviest(one)),
    )


def _squares(one: AttentionMap) -> alt.Chart:
    """Blocks that have a weight. They lie in the page as one text of two digits each, which is
    far shorter than a table.
    """
    n_blocks = one.n_rows * one.n_columns
    digits = json.dumps(one.level_bytes.hex())
    chart = alt.Chart(alt.sequence(0, n_blocks, as_="i"))
    chart = chart.transform_calculate(
        level=f"parseInt(slice({digits}, 2 * datum.i, 2 * datum.i + 2), 16)"
    )
    chart = chart.transform_filter("datum.level > 0").transform_calculate(
        row=f"floor(datum.i / {one.n_columns})",
        column=f"datum.i % {one.n_columns}",
        share=f"datum.level / {MAX_LEVEL}",
    )
    chart = chart.transform_calculate(
        bottom="datum.row + 1",
        right="datum.column + 1",
        query=_block_name("datum.row", one.n_rows, one.n_queries, one.query_tokens),
        seen_key=_block_name("datum.column", one.n_columns, one.n_keys, one.key_tokens),
        weight=f"format({one.largest} * datum.share * datum.share, '.2~g')",
    )
    return chart.mark_rect(fill=css_colour(FILL), strokeWidth=0, aria=False).encode(
        x=alt.X(
            "column:Q",
            title="key",
            scale=alt.Scale(domain=[0, one.n_columns], nice=False),
            axis=_block_axis(one.n_columns, one.n_keys),
        ),
        x2=alt.X2("right:Q"),
        y=alt.Y(
            "row:Q",
            title="query",
            scale=alt.Scale(domain=[one.n_rows, 0], nice=False),
            axis=_block_axis(one.n_rows, one.n_queries),
        ),
        y2=alt.Y2("bottom:Q"),
        fillOpacity=alt.FillOpacity(
            "share:Q", scale=alt.Scale(domain=[0, 1], range=[0, 1]), legend=None
        ),
        tooltip=[
            alt.Tooltip("query:N"),
            alt.Tooltip("seen_key:N", title="key"),
            alt.Tooltip("weight:N"),
        ],
    )


def _block_name(place: str, n_blocks: int, size: int, tokens: Sequence[str]) -> str:
    """The expression of what a block is called: its positions, and its token where it is one."""
    if tokens:
        texts = [token.replace(SEPARATOR, "") for token in tokens]
        listed = json.dumps(SEPARATOR.join([*texts, ""]))
        return f"{place} + ' ' + split({listed}, {json.dumps(SEPARATOR)})[{place}]"
    if n_blocks == size:
        return f"'' + {place}"
    first = f"ceil({place} * {size} / {n_blocks})"
    last = f"(ceil(({place} + 1) * {size} / {n_blocks}) - 1)"
    return f"{first} + ' to ' + {last}"


def _block_axis(n_blocks: int, size: int) -> alt.Axis:
    """An axis of blocks whose labels are positions."""
    return alt.Axis(
        grid=False,
        values=[n_blocks * share / 4 for share in range(5)],
        labelExpr=f"format(round(datum.value * {size} / {n_blocks}), 'd')",
        labelOverlap=True,
    )


def _outline(one: AttentionMap) -> alt.Chart:
    """The edge between what is visible and what is not."""
    values: list[dict[str, Any]] = []
    for x, y, x2, y2 in mask_edges(one):
        values.append({"x": x, "y": y, "x2": x2, "y2": y2})
    return (
        alt.Chart(chart_data(values))
        .mark_rule(color=css_colour("arm-2"), strokeWidth=1.2, strokeCap="square", aria=False)
        .encode(x=alt.X("x:Q"), y=alt.Y("y:Q"), x2=alt.X2("x2:Q"), y2=alt.Y2("y2:Q"))
    )


def mask_edges(one: AttentionMap) -> Iterator[Segment]:
    """The sides of visible blocks that border on others or on the outside, joined into lines."""
    for row in range(one.n_rows + 1):
        is_edge = [one.sees(row - 1, at) != one.sees(row, at) for at in range(one.n_columns)]
        for begin, end in _runs_of_true(is_edge):
            yield begin, row, end, row
    for column in range(one.n_columns + 1):
        is_edge = [one.sees(at, column - 1) != one.sees(at, column) for at in range(one.n_rows)]
        for begin, end in _runs_of_true(is_edge):
            yield column, begin, column, end


def _runs_of_true(flags: Sequence[bool]) -> Iterator[tuple[int, int]]:
    begin = None
    for place, flag in enumerate([*flags, False]):
        if flag and begin is None:
            begin = place
        elif not flag and begin is not None:
            yield begin, place
            begin = None


def _describe(one: AttentionMap) -> str:
    visible = sum(one.visible_bytes) / len(one.visible_bytes)
    return (
        f"{one.n_queries} queries and {one.n_keys} keys; the largest mean weight of a block is"
        f" {number_text(one.largest)}; {whole_percent(visible)} of the blocks are visible."
    )


def _heaviest(one: AttentionMap) -> Iterator[tuple[str, str, str]]:
    """The blocks with the largest weights."""
    order = sorted(range(len(one.level_bytes)), key=lambda block: -one.level_bytes[block])
    for block in order[:N_LISTED]:
        row, column = divmod(block, one.n_columns)
        query = _position_text(row, one.n_rows, one.n_queries, one.query_tokens)
        key = _position_text(column, one.n_columns, one.n_keys, one.key_tokens)
        yield query, key, number_text(one.weight(row, column))


def _position_text(place: int, n_blocks: int, size: int, tokens: Sequence[str]) -> str:
    """A block by its first position, with its token where it is one."""
    if tokens:
        return f"{place} {tokens[place]}"
    return str(-(-place * size // n_blocks))
