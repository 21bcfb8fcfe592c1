"""Any rule by FlexAttention: blocks that see nothing are skipped, the mask is never in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from paribus.batch import Layout
from paribus.masks import Rule
from paribus.model.kernels.compiled import compiled
from paribus.model.kernels.view import View

# Tiles measured on an H200 for heads of 64: narrower than torch's own, they waste less at the edge of a mask.
TILED_HEAD = 64
TILES: Any = {
    "fwd_BLOCK_M": 128, "fwd_BLOCK_N": 64, "fwd_num_warps": 4, "fwd_num_stages": 3,
    "bwd_BLOCK_M1": 64, "bwd_BLOCK_N1": 64, "bwd_BLOCK_M2": 64, "bwd_BLOCK_N2": 64,
    "bwd_num_warps": 4, "bwd_num_stages": 3,
}  # fmt: skip


def flex(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, view: View, scale: float) -> Tensor:
    """FlexAttention, compiled; a query that sees nothing gives zeros."""
    return compiled(_attend)(query_BHTE, key_BHSE, value_BHSE, block_mask(view), scale)


def _attend(query: Tensor, key: Tensor, value: Tensor, blocks: BlockMask, scale: float) -> Tensor:
    options = TILES if query.shape[-1] == value.shape[-1] == TILED_HEAD else None
    out = flex_attention(query, key, value, block_mask=blocks, scale=scale, kernel_options=options)
    assert isinstance(out, Tensor)
    return out


def block_mask(view: View) -> BlockMask:
    """Which blocks a rule touches: kept for rules over positions alone, made anew where the batch decides."""
    if view.static:
        assert isinstance(view.keys.prefix, int)
        return _static_blocks(
            view.rule, view.queries.length, view.keys.length, view.queries.start, view.keys.start,
            view.keys.prefix, view.n_heads, str(view.device),
        )  # fmt: skip
    n_sequences = view.keys.n_sequences
    return compiled(create_block_mask)(
        _mask_mod(view), n_sequences, _head_count(view), view.queries.length, view.keys.length, view.device
    )


def _mask_mod(view: View) -> Any:
    queries, keys = view.queries, view.keys
    groups, n_heads = view.groups, view.n_heads

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        query = _Place(q + queries.start, b, q, queries.documents_BT, queries.real_BT, queries.prefix)
        key = _Place(k + keys.start, b, k, keys.documents_BT, keys.real_BT, keys.prefix)
        seen = groups[-1].sees(query, key)
        for place in range(len(groups) - 2, -1, -1):
            first_of_next = (place + 1) * n_heads // len(groups)
            seen = torch.where(h < first_of_next, groups[place].sees(query, key), seen)
        return seen

    return sees


@dataclass(frozen=True, eq=False)
class _Place:
    """One position of one sequence, as FlexAttention asks for it."""

    index: Tensor
    sequence: Tensor
    column: Tensor
    documents_BT: Tensor | None
    real_BT: Tensor | None
    prefix: int | Tensor

    @property
    def document(self) -> Tensor:
        assert self.documents_BT is not None
        return self.documents_BT[self.sequence, self.column]

    @property
    def in_prefix(self) -> Tensor:
        return self.index < (self.prefix[self.sequence] if isinstance(self.prefix, Tensor) else self.prefix)

    @property
    def real(self) -> Tensor:
        assert self.real_BT is not None
        return self.real_BT[self.sequence, self.column]


def _head_count(view: View) -> int | None:
    return view.n_heads if len(view.groups) > 1 else None


@lru_cache(maxsize=256)
def _static_blocks(
    rule: Rule, n_queries: int, n_keys: int, query_start: int, key_start: int, prefix: int, n_heads: int, device: str
) -> BlockMask:
    queries, keys = Layout(1, n_queries, query_start, prefix), Layout(1, n_keys, key_start, prefix)
    view = View(rule, queries, keys, n_heads, torch.device(device))
    return create_block_mask(_mask_mod(view), None, _head_count(view), n_queries, n_keys, device)
