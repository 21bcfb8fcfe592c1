"""The price table: what is counted, and each architecture's column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.console import table_width
from paribus.cli.terminal.field_format import format_bool
from paribus.masks import PREFIX_RULES, Rule, leaves
from paribus.report.numbers import (
    NumberFormat,
    format_count,
    format_distinct,
    format_flops,
    format_percent,
    format_size,
)
from paribus.spec import Price

LEGEND = (
    "non-embedding: without token, position and output tables; active: what one token uses. FLOPs"
    " are those of matrix products, two per multiply-add; the backward pass counts twice the"
    " forward pass. dense: every query-key pair; visible: only the pairs that the mask lets"
    " through."
)


@dataclass(frozen=True)
class PriceLine:
    """One thing that is counted, and how it is written."""

    label: str
    value: Callable[[Price], float]
    number_format: NumberFormat

    def format_values(self, prices: Sequence[Price]) -> list[str]:
        """The value of each price, with digits that tell different ones apart."""
        return format_distinct([self.value(price) for price in prices], self.number_format)


def _total_tokens(price: Price) -> int:
    """The number of tokens of input and target together."""
    return price.length + price.source_length


SIZE_LINES = (
    PriceLine("parameters", lambda price: price.parameters, format_count),
    PriceLine("  non-embedding", lambda price: price.non_embedding_parameters, format_count),
    PriceLine("  active", lambda price: price.active_parameters, format_count),
)
CACHE_LINES = (
    PriceLine("KV cache per token", lambda price: price.kv_bytes_per_token, format_size),
    PriceLine(
        "KV cache per source token", lambda price: price.kv_bytes_per_source_token, format_size
    ),
    PriceLine("cache kept within an answer", lambda price: price.appendable, format_bool),
)
ENCODER_LINE = PriceLine(
    "encoder's KV cache per source token, across turns",
    lambda price: price.encoder_kv_bytes_per_source_token,
    format_size,
)
FLOP_LINES = (
    PriceLine(
        "visible share of query-key pairs", lambda price: price.visible_share, format_percent
    ),
    PriceLine("training, one sequence · dense", lambda price: price.training.dense, format_flops),
    PriceLine(
        "training, one sequence · visible", lambda price: price.training.visible, format_flops
    ),
    PriceLine(
        "training, one token · dense",
        lambda price: price.training.dense / _total_tokens(price),
        format_flops,
    ),
    PriceLine(
        "training, one token · visible",
        lambda price: price.training.visible / _total_tokens(price),
        format_flops,
    ),
    PriceLine("prefill, one sequence · dense", lambda price: price.prefill.dense, format_flops),
    PriceLine("prefill, one sequence · visible", lambda price: price.prefill.visible, format_flops),
    PriceLine("decode, one token · dense", lambda price: price.decode.dense, format_flops),
    PriceLine("decode, one token · visible", lambda price: price.decode.visible, format_flops),
)


def price_table(names: Sequence[str], prices: Sequence[Price], has_header: bool = True) -> Table:
    """One row per quantity, one column per architecture."""
    table = Table(
        box=None, padding=(0, 3, 0, 0), pad_edge=False, show_header=has_header, header_style="bold"
    )
    table.add_column(no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for number, section in enumerate((SIZE_LINES, CACHE_LINES, FLOP_LINES)):
        if number:
            table.add_row()
        for line in section:
            table.add_row(line.label, *line.format_values(prices))
        if section is CACHE_LINES:
            if any(price.encoder_kv_bytes_per_source_token for price in prices):
                table.add_row(ENCODER_LINE.label, *ENCODER_LINE.format_values(prices))
            table.add_row("cache kept across turns", *[price.across_turns for price in prices])
    return table


def fit_price_tables(
    names: Sequence[str], prices: Sequence[Price], page: Console
) -> Iterator[RenderableType]:
    """As many tables as the page's width needs."""
    table = price_table(names, prices)
    if len(names) == 1 or table_width(table, page).maximum <= page.width:
        yield table
        return
    half = len(names) // 2
    yield from fit_price_tables(names[:half], prices[:half], page)
    yield Text()
    yield from fit_price_tables(names[half:], prices[half:], page)


def describe_lengths(price: Price, masks: Sequence[Rule]) -> str:
    """The lengths that a price is for."""
    lengths = [f"length {price.length}"]
    if any(leaves(rule) & PREFIX_RULES for rule in masks):
        lengths.append(f"prefix {price.prefix}")
    if price.source_length:
        lengths.append(f"source length {price.source_length}")
    return ", ".join([*lengths, f"{price.bytes_per_value} bytes per cached value"])
