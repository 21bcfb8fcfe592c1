"""Do two architectures read a row alike, as far as what is scored depends on it?

Masks are compared pair by pair, from the top layer down: where a position counts, it must see the
same keys in both. Relative positions are compared over the distances that the row has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import BatchLayout
from paribus.masks import Rule, SequenceLayout, dense_mask, rule_at_head
from paribus.masks.dense import visible_rows
from paribus.model.positions import relative_buckets
from paribus.objectives import Problem
from paribus.spec import RelativeBias, ResolvedArchitecture, Stack
from paribus.spec.resolved import is_bidirectional

BoolArray = NDArray[np.bool_]
ROWS_AT_ONCE = 512  # rows of two masks that are compared at once


@dataclass(frozen=True, eq=False)
class Reading:
    """How a row lies before a model: its layout, that of its source, and which positions count."""

    layout: SequenceLayout
    source: SequenceLayout | None
    is_scored: BoolArray
    restarts: bool = False  # are positions counted anew in each document?

    @staticmethod
    def of(problem: Problem, counts_all: bool = False) -> Reading:
        """How the first row of a problem lies, without its padding."""
        inputs, source = problem.inputs, None
        layout = _sequence_layout(inputs.layout)
        is_scored = np.full(inputs.layout.length, counts_all)
        is_scored[problem.scored_positions_BM[0][problem.weights_BM[0] > 0].numpy()] = True
        if inputs.source is not None:
            source = _sequence_layout(inputs.source.layout)
        return Reading(layout, source, is_scored[: layout.length])


def _sequence_layout(layout: BatchLayout) -> SequenceLayout:
    n_tokens, prefix, documents = layout.length, layout.prefix, None
    if layout.real_BT is not None:
        n_tokens = max(int(layout.real_BT[0].sum()), 1)
    if isinstance(prefix, Tensor):
        prefix = int(prefix[0])
    if layout.documents_BT is not None:
        documents = layout.documents_BT[0, :n_tokens].numpy()
    return SequenceLayout(n_tokens, min(prefix, n_tokens), documents)


def is_read_alike(
    reading: Reading,
    one: ResolvedArchitecture,
    other: ResolvedArchitecture,
    reads_encoder: bool = False,
) -> bool:
    """Does a row come to the same in two architectures of as many layers and heads? A head reads
    the encoder alone, where there is one.
    """
    n_heads = one.stack.layers[0].attention.n_heads
    if reads_encoder and one.encoder is not None and other.encoder is not None:
        return _seen_positions(one.encoder, other.encoder, n_heads, reading) is not None
    seen = _seen_positions(one.stack, other.stack, n_heads, reading)
    if seen is None:
        return False
    if seen.source is None or one.encoder is None or other.encoder is None:
        return True
    assert reading.source is not None
    encoded = Reading(reading.source, None, seen.source, reading.restarts)
    return _seen_positions(one.encoder, other.encoder, n_heads, encoded) is not None


class _SeenPositions(NamedTuple):
    """What scored positions depend on, in the lowest layer and in the source."""

    own: BoolArray
    source: BoolArray | None


def _seen_positions(
    one: Stack, other: Stack, n_heads: int, reading: Reading
) -> _SeenPositions | None:
    """What scored positions depend on through two stacks, from the top layer down; None where
    some position that counts sees other keys in one than in the other, or at other distances.
    """
    if not _have_same_distances(one, other, reading):
        return None
    needed, source_needed = reading.is_scored, None
    if reading.source is not None:
        source_needed = np.zeros(reading.source.length, bool)
    for first, second in zip(reversed(one.layers), reversed(other.layers), strict=True):
        if first.cross is not None and second.cross is not None and reading.source is not None:
            keys = _common_keys(
                first.cross, second.cross, n_heads, reading.layout, needed, reading.source
            )
            if keys is None:
                return None
            assert source_needed is not None
            source_needed = source_needed | keys
        keys = _common_keys(first.mask, second.mask, n_heads, reading.layout, needed)
        if keys is None:
            return None
        needed = needed | keys
    return _SeenPositions(needed, source_needed)


def _have_same_distances(one: Stack, other: Stack, reading: Reading) -> bool:
    """Have two relative biases the same bucket for each distance in a row?"""
    biases = one.positions, other.positions
    if not (isinstance(biases[0], RelativeBias) and isinstance(biases[1], RelativeBias)):
        return True
    longest = reading.layout.length
    if reading.restarts and reading.layout.documents is not None:
        longest = int(np.bincount(reading.layout.documents).max())
    distances = torch.arange(1 - longest, longest)
    first = relative_buckets(distances, biases[0], is_bidirectional(one))
    return torch.equal(first, relative_buckets(distances, biases[1], is_bidirectional(other)))


def _common_keys(
    one: Rule,
    other: Rule,
    n_heads: int,
    layout: SequenceLayout,
    needed: BoolArray,
    source: SequenceLayout | None = None,
) -> BoolArray | None:
    """The keys that the needed queries see under both rules; None where they see others."""
    n_keys = layout.length if source is None else source.length
    keys = np.zeros(n_keys, bool)
    pairs: dict[tuple[Rule, Rule], None] = {}
    for head in range(n_heads):
        pairs[rule_at_head(one, head, n_heads), rule_at_head(other, head, n_heads)] = None
    for first, second in pairs:
        for start in range(0, layout.length, ROWS_AT_ONCE):
            where = slice(start, min(start + ROWS_AT_ONCE, layout.length))
            rows = needed[where]
            if not rows.any():
                continue
            seen = _visible(first, layout, where, source)[rows]
            if first != second and not np.array_equal(
                seen, _visible(second, layout, where, source)[rows]
            ):
                return None
            keys |= seen.any(0)
    return keys


def _visible(
    rule: Rule, layout: SequenceLayout, where: slice, source: SequenceLayout | None
) -> BoolArray:
    if source is None:
        return visible_rows(rule, layout, where)
    return dense_mask(rule, layout, source)[where]
