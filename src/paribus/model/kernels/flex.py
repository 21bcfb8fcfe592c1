"""Any rule by FlexAttention: blocks that see nothing are skipped, the mask is never in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from paribus.batch import BatchLayout
from paribus.masks import PREFIX_RULES, Rule, head_rules, leaves, parse_rule
from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.lazy_compile import lazy_compile

# Tiles measured on an H200 for heads of 64: narrower than torch's own, they waste less at the edge
# of a mask.
MAX_TILED_WIDTH = 64  # channels; wider heads take torch's own
TILES: Any = {
    "fwd_BLOCK_M": 128,
    "fwd_BLOCK_N": 64,
    "fwd_num_warps": 4,
    "fwd_num_stages": 3,
    "bwd_BLOCK_M1": 64,
    "bwd_BLOCK_N1": 64,
    "bwd_BLOCK_M2": 64,
    "bwd_BLOCK_N2": 64,
    "bwd_num_warps": 4,
    "bwd_num_stages": 3,
}
_MAX_DECODE_QUERIES = 8  # queries
_BLOCK = 128  # positions of a block, as torch cuts them


def flex(
    query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, mask: AttentionMask, scale: float
) -> Tensor:
    """FlexAttention, compiled; a query that sees nothing gives zeros."""
    return lazy_compile(_flex_attend)(query_BHTE, key_BHSE, value_BHSE, block_mask(mask), scale)


def _flex_attend(
    query: Tensor, key: Tensor, value: Tensor, blocks: BlockMask, scale: float
) -> Tensor:
    out = flex_attention(
        query,
        key,
        value,
        block_mask=blocks,
        scale=scale,
        kernel_options=_kernel_options(query, value),
    )
    assert isinstance(out, Tensor)
    return out


def _kernel_options(query: Tensor, value: Tensor) -> Any:
    """Tiles for narrow heads, and never the kernel for single queries where there are many: it
    takes 40 times as long.

    Torch chooses that one for sequences shorter than 128.
    """
    if max(query.shape[-1], value.shape[-1]) <= MAX_TILED_WIDTH:
        tiles = TILES
    else:
        tiles = {}
    if query.shape[2] > _MAX_DECODE_QUERIES:
        return {**tiles, "FORCE_USE_FLEX_ATTENTION": True}
    return tiles


def block_mask(mask: AttentionMask) -> BlockMask:
    """Which blocks a rule touches: kept for rules over positions alone, made anew where the
    batch decides.
    """
    if torch.compiler.is_compiling() and leaves(mask.rule) & PREFIX_RULES:
        mask = _with_prefix_tensor(mask)
    if mask.is_static:
        assert isinstance(mask.keys.prefix, int)
        prefix = mask.keys.prefix if leaves(mask.rule) & PREFIX_RULES else 0
        queries = _Span(mask.queries.start, mask.queries.length, prefix)
        keys = _Span(mask.keys.start, mask.keys.length, prefix)
        return _static_block_mask(mask.rule, queries, keys, mask.n_heads, str(mask.device))
    queries, keys = mask.queries, mask.keys
    tables = _block_tables(
        str(mask.rule),
        mask.n_heads,
        _layout_numbers(queries),
        _layout_numbers(keys),
        *_layout_tensors(queries),
        *_layout_tensors(keys),
    )
    return BlockMask(
        (queries.length, keys.length),
        *tables,
        BLOCK_SIZE=(_BLOCK, _BLOCK),
        mask_mod=_mask_mod(mask),
    )


def _with_prefix_tensor(mask: AttentionMask) -> AttentionMask:
    """The mask with its split as a tensor, so that compiled code serves every split."""
    split = mask.keys.prefix
    if isinstance(split, Tensor):
        return mask
    prefix = torch.full((mask.keys.n_sequences,), split, device=mask.device)
    return replace(
        mask,
        queries=replace(mask.queries, prefix=prefix),
        keys=replace(mask.keys, prefix=prefix),
    )


def _layout_numbers(layout: BatchLayout) -> list[int]:
    return [
        layout.n_sequences,
        layout.length,
        layout.start,
        0 if isinstance(layout.prefix, Tensor) else layout.prefix,
    ]


def _layout_tensors(layout: BatchLayout) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    return (
        layout.prefix if isinstance(layout.prefix, Tensor) else None,
        layout.documents_BT,
        layout.real_BT,
    )


def _rebuild_layout(
    numbers: Sequence[int], prefix: Tensor | None, documents: Tensor | None, real: Tensor | None
) -> BatchLayout:
    n_sequences, length, start, n_prefix = numbers
    return BatchLayout(
        n_sequences=n_sequences,
        length=length,
        start=start,
        prefix=n_prefix if prefix is None else prefix,
        documents_BT=documents,
        real_BT=real,
    )


# An operation of its own: made by create_block_mask inside a model that is compiled without
# gradients, the same tables led FlexAttention out of its memory (torch 2.11, an H200, heads of 32,
# 256 positions).
@torch.library.custom_op("paribus::block_tables", mutates_args=())
def _block_tables(
    rule: str,
    n_heads: int,
    queries: Sequence[int],
    keys: Sequence[int],
    query_prefix: Tensor | None,
    query_documents: Tensor | None,
    query_real: Tensor | None,
    key_prefix: Tensor | None,
    key_documents: Tensor | None,
    key_real: Tensor | None,
) -> list[Tensor]:
    """How many blocks of keys each block of queries sees, and which: in part, and wholly; then
    the other way round.
    """
    of_queries = _rebuild_layout(queries, query_prefix, query_documents, query_real)
    of_keys = _rebuild_layout(keys, key_prefix, key_documents, key_real)
    view = AttentionMask(
        rule=parse_rule(rule),
        queries=of_queries,
        keys=of_keys,
        n_heads=n_heads,
        device=_first_device(key_prefix, key_documents, key_real),
    )
    visible = F.pad(view.dense_mask, (0, -keys[1] % _BLOCK, 0, -queries[1] % _BLOCK))
    n_visible = (
        visible.unflatten(3, (-1, _BLOCK)).unflatten(2, (-1, _BLOCK)).sum((3, 5), dtype=torch.int32)
    )
    n_visible = n_visible.expand(of_keys.n_sequences, -1, -1, -1)
    wholly = n_visible == _BLOCK**2
    partly = (n_visible > 0) & ~wholly
    flags = (partly, wholly, partly.mT, wholly.mT)
    return [
        table for flag in flags for table in (flag.sum(-1, dtype=torch.int32), _true_first(flag))
    ]


def _true_first(flags: Tensor) -> Tensor:
    """Places along the last dimension, those of what is true before the others."""
    return flags.int().argsort(dim=-1, descending=True, stable=True).to(torch.int32).contiguous()


@_block_tables.register_fake
def _fake_block_tables(
    rule: str, n_heads: int, queries: Sequence[int], keys: Sequence[int], *tensors: Tensor | None
) -> list[Tensor]:
    device = _first_device(*tensors[3:])
    across, down = -(-queries[1] // _BLOCK), -(-keys[1] // _BLOCK)
    first = (keys[0], n_heads if len(head_rules(parse_rule(rule))) > 1 else 1)
    shapes = ((across,), (across, down)) * 2 + ((down,), (down, across)) * 2
    return [torch.empty((*first, *shape), dtype=torch.int32, device=device) for shape in shapes]


def _first_device(*tensors: Tensor | None) -> torch.device:
    """Where the layout of keys lies: the batch decides, so one of its tensors is there."""
    return next(tensor.device for tensor in tensors if tensor is not None)


def _mask_mod(mask: AttentionMask) -> Any:
    queries, keys = mask.queries, mask.keys
    groups, n_heads = mask.head_rules, mask.n_heads

    def sees(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        query = _FlexPosition(
            index=q + queries.start,
            sequence=b,
            column=q,
            documents_BT=queries.documents_BT,
            real_BT=queries.real_BT,
            prefix=queries.prefix,
        )
        key = _FlexPosition(
            index=k + keys.start,
            sequence=b,
            column=k,
            documents_BT=keys.documents_BT,
            real_BT=keys.real_BT,
            prefix=keys.prefix,
        )
        visible = groups[-1].sees(query, key)
        for place in range(len(groups) - 2, -1, -1):
            first_of_next = (place + 1) * n_heads // len(groups)
            visible = torch.where(h < first_of_next, groups[place].sees(query, key), visible)
        return visible

    return sees


@dataclass(frozen=True, eq=False)
class _FlexPosition:
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
        return self.index < (
            self.prefix[self.sequence] if isinstance(self.prefix, Tensor) else self.prefix
        )

    @property
    def real(self) -> Tensor:
        assert self.real_BT is not None
        return self.real_BT[self.sequence, self.column]


def _head_count(mask: AttentionMask) -> int | None:
    if len(mask.head_rules) > 1:
        return mask.n_heads
    return None


class _Span(NamedTuple):
    """The positions of a static mask's queries or keys: numbers alone, so it can be looked up."""

    start: int
    length: int
    prefix: int

    def layout(self) -> BatchLayout:
        return BatchLayout(n_sequences=1, length=self.length, start=self.start, prefix=self.prefix)


@lru_cache(maxsize=256)
def _static_block_mask(
    rule: Rule, queries: _Span, keys: _Span, n_heads: int, device: str
) -> BlockMask:
    view = AttentionMask(
        rule=rule,
        queries=queries.layout(),
        keys=keys.layout(),
        n_heads=n_heads,
        device=torch.device(device),
    )
    return create_block_mask(
        _mask_mod(view), None, _head_count(view), queries.length, keys.length, device
    )
