"""The price table: what is counted, and each architecture's column."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from paribus.cli.terminal.console import room
from paribus.cli.terminal.spelling import whether
from paribus.masks import ASK_PREFIX, Rule, leaves
from paribus.report.numbers import Writer, count, flops, percent, size, written_apart
from paribus.spec import Price

MEANING = (
    "non-embedding: without word, position and output tables; active: what one token uses. "
    "FLOPs of matrix products, two a multiply-add, backward twice forward; dense: every query meets every key; "
    "visible: only the pairs the mask lets through."
)


@dataclass(frozen=True)
class Line:
    """One thing that is counted, and how it is written."""

    label: str
    value: Callable[[Price], float]
    writer: Writer

    def written(self, prices: Sequence[Price]) -> list[str]:
        """The value of each price, with digits that tell different ones apart."""
        return written_apart([self.value(price) for price in prices], self.writer)


def _tokens(price: Price) -> int:
    """Of the whole text, input and target."""
    return price.length + price.source_length


SIZES = (
    Line("parameters", lambda price: price.parameters, count),
    Line("  non-embedding", lambda price: price.non_embedding_parameters, count),
    Line("  active", lambda price: price.active_parameters, count),
)
CACHE = (
    Line("KV cache, a token", lambda price: price.kv_bytes_per_token, size),
    Line("KV cache, a source token", lambda price: price.kv_bytes_per_source_token, size),
    Line("cache kept when text grows", lambda price: price.appendable, whether),
)
WORK = (
    Line("visible share of query-key pairs", lambda price: price.visible_share, percent),
    Line("training, one sequence · dense", lambda price: price.training.dense, flops),
    Line("training, one sequence · visible", lambda price: price.training.visible, flops),
    Line("training, one token · dense", lambda price: price.training.dense / _tokens(price), flops),
    Line("training, one token · visible", lambda price: price.training.visible / _tokens(price), flops),
    Line("prefill, one sequence · dense", lambda price: price.prefill.dense, flops),
    Line("prefill, one sequence · visible", lambda price: price.prefill.visible, flops),
    Line("decode, one token · dense", lambda price: price.decode.dense, flops),
    Line("decode, one token · visible", lambda price: price.decode.visible, flops),
)


def price_table(names: Sequence[str], prices: Sequence[Price], titled: bool = True) -> Table:
    """A row for everything counted, a column an architecture."""
    table = Table(box=None, padding=(0, 3, 0, 0), pad_edge=False, show_header=titled, header_style="bold")
    table.add_column(no_wrap=True)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for number, section in enumerate((SIZES, CACHE, WORK)):
        if number:
            table.add_row()
        for line in section:
            table.add_row(line.label, *line.written(prices))
    return table


def fitted(names: Sequence[str], prices: Sequence[Price], page: Console) -> Iterator[RenderableType]:
    """As many tables as the page's width needs."""
    table = price_table(names, prices)
    if len(names) == 1 or room(table, page).maximum <= page.width:
        yield table
        return
    half = len(names) // 2
    yield from fitted(names[:half], prices[:half], page)
    yield Text()
    yield from fitted(names[half:], prices[half:], page)


def terms(price: Price, masks: Sequence[Rule]) -> str:
    """The lengths a price holds for."""
    parts = [f"length {price.length}"]
    parts += [f"prefix {price.prefix}"] if any(leaves(rule) & ASK_PREFIX for rule in masks) else []
    parts += [f"source length {price.source_length}"] if price.source_length else []
    return ", ".join([*parts, f"{price.bytes_per_value} bytes a cached value"])
