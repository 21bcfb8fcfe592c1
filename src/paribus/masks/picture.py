"""What a rule looks like over one sequence: the dense picture and the number of visible pairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from paribus.masks.division import heads
from paribus.masks.rules import And, Causal, Full, Prefix, Reverse, Rule, SamePart, Window, simplified

Bools = NDArray[np.bool_]
_ROWS = 1024  # rows drawn at once when counting long sequences


@dataclass(frozen=True, eq=False)
class Layout:
    """Where one sequence's prefix, documents and padding lie."""

    length: int
    prefix: int = 0  # the first `prefix` positions form the prefix
    documents: NDArray[np.integer] | None = None  # document number by position; None: one document
    real: Bools | None = None  # False where padding; None: no padding

    def __post_init__(self) -> None:
        assert 0 <= self.prefix <= self.length
        assert self.documents is None or self.documents.shape == (self.length,)
        assert self.real is None or self.real.shape == (self.length,)


@dataclass(frozen=True, eq=False)
class _Side:
    index: NDArray[np.integer]
    document: NDArray[np.integer]
    in_prefix: Bools
    real: Bools

    @staticmethod
    def of(layout: Layout) -> _Side:
        index = np.arange(layout.length)
        documents = np.zeros_like(index) if layout.documents is None else layout.documents
        real = np.ones(layout.length, bool) if layout.real is None else layout.real
        return _Side(index, documents, index < layout.prefix, real)

    def at(self, where: slice | NDArray[np.integer]) -> _Side:
        return replace(self, **{name: array[where] for name, array in vars(self).items()})

    def rows(self, where: slice | NDArray[np.integer]) -> _Side:
        return replace(self, **{name: array[where, None] for name, array in vars(self).items()})


def dense(rule: Rule, layout: Layout, keys: Layout | None = None) -> Bools:
    """The mask of a rule without head groups, query by key; `keys` is another sequence for cross-attention.

    Padding is hidden under every rule, as it is from every model.
    """
    side = _Side.of(layout)
    return _seen(rule, side.rows(slice(None)), side if keys is None else _Side.of(keys))


def seen_rows(rule: Rule, layout: Layout, where: slice) -> Bools:
    """Which keys some queries see by any of a rule's groups of heads, [query, key]."""
    side = _Side.of(layout)
    return np.any([_seen(part, side.rows(where), side) for part in dict.fromkeys(heads(rule))], axis=0)


def seen_pairs(rule: Rule, layout: Layout, queries: NDArray[np.integer], keys: NDArray[np.integer]) -> Bools:
    """Whether each query sees the key at the same place by any of a rule's groups of heads."""
    side = _Side.of(layout)
    return np.any([_seen(part, side.at(queries), side.at(keys)) for part in dict.fromkeys(heads(rule))], axis=0)


def visible_pairs(rule: Rule, layout: Layout, keys: Layout | None = None) -> float:
    """How many (query, key) pairs a head sees, the mean over the rule's groups of heads."""
    return _mean(rule, lambda part: _pairs(part, layout, keys))


def visible_keys(rule: Rule, layout: Layout, queries: Bools, keys: Layout | None = None) -> float:
    """How many keys the chosen queries see between them, the mean over the rule's groups of heads."""
    where = np.flatnonzero(queries)
    return _mean(rule, lambda part: _counted(part, _Side.of(layout), _Side.of(keys or layout), where))


def _mean(rule: Rule, count: Callable[[Rule], int]) -> float:
    groups = heads(rule)
    return sum(map(count, groups)) / len(groups)


def _pairs(rule: Rule, layout: Layout, keys: Layout | None) -> int:
    if keys is None and layout.documents is None and layout.real is None:
        plain = simplified(rule, documents=False, padding=False, prefix=layout.prefix > 0)
        return _plain_pairs(plain, layout.length, layout.prefix)
    return _counted(rule, _Side.of(layout), _Side.of(keys or layout), np.arange(layout.length))


@lru_cache(maxsize=4096)
def _plain_pairs(rule: Rule, length: int, prefix: int) -> int:
    """Pairs where the layout has neither documents nor padding: closed forms where a long sequence needs one."""
    match rule:
        case Full():
            return length * length
        case Causal() | Reverse():
            return length * (length + 1) // 2
        case Prefix():
            return length * (length + 1) // 2 + prefix * (prefix - 1) // 2
        case SamePart() | And(Causal(), SamePart()) | And(SamePart(), Causal()):
            within = Full() if rule == SamePart() else Causal()
            return _plain_pairs(within, prefix, 0) + _plain_pairs(within, length - prefix, 0)
        case Window(n):
            width = min(n, length)
            return width * length - width * (width - 1) // 2
        case _:
            side = _Side.of(Layout(length, prefix))
            return _counted(rule, side, side, np.arange(length))


def _counted(rule: Rule, query: _Side, key: _Side, where: NDArray[np.integer]) -> int:
    starts = range(0, len(where), _ROWS)
    return sum(int(np.count_nonzero(_seen(rule, query.rows(where[s : s + _ROWS]), key))) for s in starts)


def _seen(rule: Rule, query: _Side, key: _Side) -> Bools:
    return np.asarray(rule.sees(query, key)) & key.real


def drawing(picture: Bools) -> str:
    """The picture as text, `#` where visible."""
    return "\n".join("".join("#" if seen else "." for seen in row) for row in picture)
