"""Laid items as rows to read, without a token that no answer needs; items that read the same share
a row.

`item_problems` of `objectives/framing.py` says the same with tensors, one item at a time. These
rows are made by the hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from paribus.objectives.framing import Ids, ItemLayout, LaidItem
from paribus.spec.objectives import LastToken


@dataclass(frozen=True)
class ReadTokens:
    """What a model reads of an item, and where its first answer is due; the others follow it."""

    source: Ids  # of the encoder; empty where there is none
    tokens: Ids
    prefix: int
    first_scored: int


@dataclass(frozen=True, eq=False)
class ItemRow:
    """One row with all items that ask it: they differ in their last token at most."""

    read: ReadTokens
    shared_targets: Ids
    last_targets: list[tuple[int, int]]  # number of an item, and its last token

    @property
    def n_positions(self) -> int:
        return len(self.read.source) + len(self.read.tokens)


def item_rows(layout: ItemLayout, laid_items: Sequence[LaidItem]) -> list[ItemRow]:
    """The rows of all items, those of about one length side by side."""
    rows: dict[tuple[ReadTokens, Ids], ItemRow] = {}
    for number, item in enumerate(laid_items):
        for read, targets in _reads(layout, item):
            key = (read, targets[:-1])
            if key not in rows:
                rows[key] = ItemRow(read, targets[:-1], [])
            rows[key].last_targets.append((number, targets[-1]))
    return sorted(rows.values(), key=_row_lengths)


def _row_lengths(row: ItemRow) -> tuple[int, int]:
    return len(row.read.tokens), len(row.read.source)


def _reads(layout: ItemLayout, item: LaidItem) -> Iterator[tuple[ReadTokens, Ids]]:
    """What is read for an item, and the targets that are scored there: once, or once a token
    where answers are given in place.
    """
    before = (*layout.sentinel, *item.target[:-1])
    match layout.framing:
        case "apart":
            tokens = (layout.vocabulary.decoder_start, *before)
            yield ReadTokens(item.inputs, tokens, 0, len(layout.sentinel)), item.target
        case "together":
            first = len(item.inputs) + len(layout.sentinel) - 1
            read = ReadTokens((), (*item.inputs, *before), len(item.inputs), first)
            yield read, item.target
        case "shifted":
            first = len(item.inputs) - 1
            yield ReadTokens((), (*item.inputs, *before), 0, first), item.target
        case "in place":
            assert isinstance(layout.component.objective, LastToken)
            for place, token in enumerate(item.target):
                tokens = (*item.inputs, *item.target[:place], layout.vocabulary.mask)
                yield ReadTokens((), tokens, len(tokens), len(tokens) - 1), (token,)
