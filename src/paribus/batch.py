"""The tensors with names that cross packages: what is read, and how it lies.

Shapes, here and everywhere: B sequences, T query positions, S key positions, D model width, H query heads,
G key/value heads, E head width, F feed-forward width, V vocabulary, L layers, N experts.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the positions of a batch lie, and which prefix, document or padding they belong to."""

    n_sequences: int
    length: int
    start: int = 0  # place of the first position; above 0 when a cache holds what came before
    prefix: int | Tensor = 0  # length of the prefix: one for all sequences, or [B]
    documents_BT: Tensor | None = None  # None: one document
    real_BT: Tensor | None = None  # False where padding; None: no padding
    positions_BT: Tensor | None = None  # what position encodings read; None: the place in the sequence

    def positions(self, device: torch.device) -> Tensor:
        """[T] or [B, T]."""
        if self.positions_BT is not None:
            return self.positions_BT
        return torch.arange(self.start, self.start + self.length, device=device)


@dataclass(frozen=True, eq=False)
class Batch:
    """Tokens to read, their layout, and for an encoder-decoder the source they are read beside."""

    tokens_BT: Tensor
    layout: Layout
    segments_BT: Tensor | None = None
    source: Batch | None = None
    rows_B: Tensor | None = None  # each sequence's number in the global batch; None: counted from 0

    @staticmethod
    def of(
        tokens_BT: Tensor,
        *,
        prefix: int | Tensor = 0,
        documents_BT: Tensor | None = None,
        real_BT: Tensor | None = None,
        positions_BT: Tensor | None = None,
        segments_BT: Tensor | None = None,
        source: Tensor | Batch | None = None,
        rows_B: Tensor | None = None,
    ) -> Batch:
        """A batch from its tokens; the layout's length follows from their shape."""
        n_sequences, length = tokens_BT.shape
        layout = Layout(n_sequences, length, 0, prefix, documents_BT, real_BT, positions_BT)
        source = Batch.of(source) if isinstance(source, Tensor) else source
        return Batch(tokens_BT, layout, segments_BT, source, rows_B)
