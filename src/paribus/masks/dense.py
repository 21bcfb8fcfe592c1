"""A rule over one sequence: its dense mask, a coarse one, and the number of visible pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from paribus.masks.assignment import head_rules
from paribus.masks.rules import And, Causal, Full, Prefix, Reverse, Rule, SameSide, Strided, Window
from paribus.masks.simplification import leaves, simplify_rule

BoolArray = NDArray[np.bool_]
_ROWS_AT_ONCE = 1024  # rows drawn at once when counting long sequences


@dataclass(frozen=True, eq=False)
class SequenceLayout:
    """Where one sequence's prefix, documents and padding lie."""

    length: int
    prefix: int = 0  # the first `prefix` positions form the prefix
    documents: NDArray[np.integer] | None = None  # document number by position; None: one document
    real: BoolArray | None = None  # False where padding; None: no padding

    def __post_init__(self) -> None:
        assert 0 <= self.prefix <= self.length
        assert self.documents is None or self.documents.shape == (self.length,)
        assert self.real is None or self.real.shape == (self.length,)


@dataclass(frozen=True, eq=False)
class _PositionArrays:
    index: NDArray[np.integer]
    document: NDArray[np.integer]
    in_prefix: BoolArray
    real: BoolArray

    @staticmethod
    def of(layout: SequenceLayout) -> _PositionArrays:
        index = np.arange(layout.length)
        if layout.documents is None:
            documents = np.zeros_like(index)
        else:
            documents = layout.documents
        if layout.real is None:
            real = np.ones(layout.length, bool)
        else:
            real = layout.real
        return _PositionArrays(index, documents, index < layout.prefix, real)

    def select(self, where: slice | NDArray[np.integer]) -> _PositionArrays:
        return replace(self, **{name: array[where] for name, array in vars(self).items()})

    def select_rows(self, where: slice | NDArray[np.integer]) -> _PositionArrays:
        return replace(self, **{name: array[where, None] for name, array in vars(self).items()})


def dense_mask(rule: Rule, layout: SequenceLayout, keys: SequenceLayout | None = None) -> BoolArray:
    """The mask of a rule without head groups, query by key; `keys` is another sequence for
    cross-attention.

    Padding is hidden under every rule, as it is from every model.
    """
    side = _PositionArrays.of(layout)
    return _visible(
        rule, side.select_rows(slice(None)), side if keys is None else _PositionArrays.of(keys)
    )


def mean_picture(
    masks: Sequence[Rule], layout: SequenceLayout, *, in_both_directions: bool = False
) -> NDArray[np.floating]:
    """The share of layers and heads in which a query sees a key, [query, key]; `in_both_directions`
    also where the key would see the query.
    """
    total = np.zeros((layout.length, layout.length), np.float32)
    for mask in masks:
        parts = head_rules(mask)
        for part in parts:
            picture = dense_mask(part, layout)
            total += (picture | picture.T if in_both_directions else picture) / len(parts)
    return total / len(masks)


def visible_rows(rule: Rule, layout: SequenceLayout, where: slice) -> BoolArray:
    """Which keys some queries see by any of a rule's groups of heads, [query, key]."""
    side = _PositionArrays.of(layout)
    return _visible_to_any_head(rule, side.select_rows(where), side)


def are_pairs_visible(
    rule: Rule, layout: SequenceLayout, queries: NDArray[np.integer], keys: NDArray[np.integer]
) -> BoolArray:
    """Whether each query sees the key at the same place by any of a rule's groups of heads."""
    side = _PositionArrays.of(layout)
    return _visible_to_any_head(rule, side.select(queries), side.select(keys))


def _visible_to_any_head(rule: Rule, query: _PositionArrays, key: _PositionArrays) -> BoolArray:
    groups = dict.fromkeys(head_rules(rule))
    return np.any([_visible(part, query, key) for part in groups], axis=0)


def count_visible_pairs(
    rule: Rule, layout: SequenceLayout, keys: SequenceLayout | None = None
) -> float:
    """How many (query, key) pairs a head sees, the mean over the rule's groups of heads."""
    return _mean_over_groups(rule, lambda part: _count_pairs(part, layout, keys))


def count_visible_keys(
    rule: Rule, layout: SequenceLayout, queries: BoolArray, keys: SequenceLayout | None = None
) -> float:
    """How many keys the chosen queries see between them, the mean over the rule's groups of
    heads.
    """
    where = np.flatnonzero(queries)
    return _mean_over_groups(
        rule,
        lambda part: _count_visible(
            part, _PositionArrays.of(layout), _PositionArrays.of(keys or layout), where
        ),
    )


def _mean_over_groups(rule: Rule, count: Callable[[Rule], int]) -> float:
    groups = head_rules(rule)
    return sum(map(count, groups)) / len(groups)


def _count_pairs(rule: Rule, layout: SequenceLayout, keys: SequenceLayout | None) -> int:
    if keys is None and layout.documents is None and layout.real is None:
        plain = simplify_rule(
            rule, has_documents=False, has_padding=False, has_prefix=layout.prefix > 0
        )
        return _count_plain_pairs(plain, layout.length, layout.prefix)
    return _count_visible(
        rule,
        _PositionArrays.of(layout),
        _PositionArrays.of(keys or layout),
        np.arange(layout.length),
    )


@lru_cache(maxsize=4096)
def _count_plain_pairs(rule: Rule, length: int, prefix: int) -> int:
    """Pairs where the layout has neither documents nor padding: closed forms where a long
    sequence needs one.
    """
    match rule:
        case Full():
            return length * length
        case Causal() | Reverse():
            return length * (length + 1) // 2
        case Prefix():
            return length * (length + 1) // 2 + prefix * (prefix - 1) // 2
        case SameSide() | And(Causal(), SameSide()) | And(SameSide(), Causal()):
            within = Full() if rule == SameSide() else Causal()
            return _count_plain_pairs(within, prefix, 0) + _count_plain_pairs(
                within, length - prefix, 0
            )
        case Window(n):
            width = min(n, length)
            return width * length - width * (width - 1) // 2
        case _:
            side = _PositionArrays.of(SequenceLayout(length, prefix))
            return _count_visible(rule, side, side, np.arange(length))


def _count_visible(
    rule: Rule, query: _PositionArrays, key: _PositionArrays, where: NDArray[np.integer]
) -> int:
    n_visible = 0
    for start in range(0, len(where), _ROWS_AT_ONCE):
        rows = query.select_rows(where[start : start + _ROWS_AT_ONCE])
        n_visible += int(np.count_nonzero(_visible(rule, rows, key)))
    return n_visible


def _visible(rule: Rule, query: _PositionArrays, key: _PositionArrays) -> BoolArray:
    return np.asarray(rule.sees(query, key)) & key.real


def mask_text(mask: BoolArray) -> str:
    """The picture as text, `#` where visible."""
    return "\n".join(map("".join, np.where(mask, "#", ".")))


def coarse_mask(rule: Rule, side: int, prefix_share: float) -> BoolArray:
    """A rule's mask in side × side squares, each for one position or for several.

    The squares are every `coarse_stride`-th position. The first share of them is the prefix.
    """
    positions = _PositionArrays(
        index=np.arange(side) * coarse_stride(rule, side),
        document=(np.arange(side) >= side * 5 // 8).astype(np.int64),
        in_prefix=np.arange(side) < round(prefix_share * side),
        real=np.ones(side, bool),
    )
    return _visible(rule, positions.select_rows(slice(None)), positions)


def coarse_stride(rule: Rule, side: int) -> int:
    """Positions a square stands for: one, or enough that the widest window takes a quarter of
    the side.
    """
    widest = 1
    for leaf in leaves(rule):
        if isinstance(leaf, Strided):
            return 1
        if isinstance(leaf, Window):
            widest = max(widest, leaf.n)
    if widest <= side // 2:
        return 1
    return ceil(widest / (side // 4))
