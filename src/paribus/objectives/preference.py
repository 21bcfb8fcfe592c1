"""Preferences: the chosen and the rejected response of each pair, posed alike, as neighbouring
rows.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from paribus.batch import Batch, BatchLayout, TextBatch
from paribus.errors import SpecError
from paribus.objectives.problem import Problem


def both_answers(text: TextBatch) -> tuple[TextBatch, TextBatch]:
    """The pairs of sources with chosen targets, and of the same sources with rejected ones."""
    if text.rejected_BT is None:
        raise SpecError(
            "objective.kind is 'preference', which needs preferences, but the corpus has none; use"
            " a source 'preferences', or form = 'preferences' for an invented language"
        )
    rejected = replace(text, tokens_BT=text.rejected_BT, real_BT=text.rejected_real_BT)
    return text, rejected


def interleaved(chosen: Problem, rejected: Problem) -> Problem:
    """One problem: rows 2i and 2i + 1 are the two responses of pair i."""
    return Problem(
        inputs=_interleaved_batch(chosen.inputs, rejected.inputs),
        scored_positions_BM=_alternate(chosen.scored_positions_BM, rejected.scored_positions_BM),
        targets_BM=_alternate(chosen.targets_BM, rejected.targets_BM),
        weights_BM=_alternate(chosen.weights_BM, rejected.weights_BM),
        target_positions_BM=_alternate(chosen.target_positions_BM, rejected.target_positions_BM),
        in_pairs=True,
    )


def _interleaved_batch(one: Batch, other: Batch) -> Batch:
    source = None
    if one.source is not None and other.source is not None:
        source = _interleaved_batch(one.source, other.source)
    batch = Batch(
        tokens_BT=_alternate(one.tokens_BT, other.tokens_BT),
        layout=_interleaved_layout(one.layout, other.layout),
        source=source,
    )
    if one.rows_B is None:
        return batch
    return batch.with_rows(_alternate(2 * one.rows_B, 2 * one.rows_B + 1))


def _interleaved_layout(one: BatchLayout, other: BatchLayout) -> BatchLayout:
    prefix = one.prefix
    if isinstance(one.prefix, Tensor) and isinstance(other.prefix, Tensor):
        prefix = _alternate(one.prefix, other.prefix)
    return BatchLayout(
        n_sequences=2 * one.n_sequences,
        length=one.length,
        start=one.start,
        prefix=prefix,
        documents_BT=_alternate_optional(one.documents_BT, other.documents_BT),
        real_BT=_alternate_optional(one.real_BT, other.real_BT),
        positions_BT=_alternate_optional(one.positions_BT, other.positions_BT),
    )


def _alternate(one: Tensor, other: Tensor) -> Tensor:
    return torch.stack([one, other], 1).flatten(0, 1)


def _alternate_optional(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return None
    return _alternate(one, other)
