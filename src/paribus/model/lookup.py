"""Rows of a table, and the gradient of reading them: on CUDA in a fixed order, where determinism is asked."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    from paribus.model.lookup_kernel import chunk_sums, invert, row_totals
except ImportError:  # triton comes with torch's CUDA builds alone
    chunk_sums = invert = row_totals = None

_CHUNK = 64  # readings of one row that are added up apart
_WIDEST, _TILE = 1024, 4096  # channels, and readings × channels, that a program has at hand
_SHORT = 2**15  # rows from which on a number of 16 bits cannot name them
_MANY = 1024  # places of a permutation that a program inverts


def look_up(places: Tensor, table_VD: Tensor) -> Tensor:
    """The rows of a table at some places, [..., D]; as F.embedding, but for how its gradient is added up."""
    if row_totals is None or table_VD.device.type != "cuda" or not torch.are_deterministic_algorithms_enabled():
        return F.embedding(places, table_VD)
    return _LookUp.apply(places, table_VD)  # pyright: ignore[reportReturnType]


class _LookUp(torch.autograd.Function):
    """Torch's own gradient sorts too, but then adds the readings of a row one by one."""

    @staticmethod
    def forward(ctx: Any, places: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(places)
        ctx.n_rows, ctx.dtype = len(table), table.dtype
        return F.embedding(places, table)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (places,) = ctx.saved_tensors
        return None, row_sums(grad.flatten(0, -2), places.flatten(), ctx.n_rows).to(ctx.dtype)


@torch.library.custom_op("paribus::row_sums", mutates_args=())
def row_sums(grads_MD: Tensor, places_M: Tensor, n_rows: int) -> Tensor:
    """The sum of the gradients that belong to each row of a table, [n_rows, D], added up in a fixed order."""
    assert chunk_sums is not None
    assert row_totals is not None
    (n_read, width), grads = grads_MD.shape, grads_MD.contiguous()
    rows, order = places_M.to(torch.int16 if n_rows <= _SHORT else torch.int32).sort(stable=True)
    numbers = torch.arange(n_rows, device=grads.device, dtype=rows.dtype)
    ends = torch.searchsorted(rows, numbers, right=True)
    n_chunks, wide = n_read // _CHUNK, min(_power_of_two(width), _WIDEST)
    n_across = -(-width // wide)
    chunks = grads.new_empty((max(n_chunks, 1), width), dtype=torch.float32)
    if n_chunks:
        few = min(wide, _TILE // _CHUNK)
        chunk_sums[(n_chunks, -(-width // few))](  # pyright: ignore[reportIndexIssue]
            grads, order, ends, rows, chunks, width, CHUNK=_CHUNK, WIDE=few
        )
    sums = grads.new_empty((n_rows, width))
    row_totals[(n_rows, n_across)](  # pyright: ignore[reportIndexIssue]
        grads, order, ends, chunks, sums, width, CHUNK=_CHUNK, ROWS=min(_TILE // wide, _CHUNK), WIDE=wide
    )
    return sums


@row_sums.register_fake
def _shape(grads_MD: Tensor, places_M: Tensor, n_rows: int) -> Tensor:
    return grads_MD.new_empty((n_rows, grads_MD.shape[1]))


def _power_of_two(width: int) -> int:
    """The least power of two that is as much, and no less than 16."""
    return max(16, 1 << (width - 1).bit_length())


def inverse(order: Tensor) -> Tensor:
    """Where each place of a permutation went; on CUDA without the sort that torch takes for a fixed order."""
    if invert is None or order.device.type != "cuda":
        return torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return _inverse(order)


@torch.library.custom_op("paribus::inverse", mutates_args=())
def _inverse(order: Tensor) -> Tensor:
    assert invert is not None
    places = torch.empty_like(order)
    invert[(-(-len(order) // _MANY),)](order, places, len(order), ROWS=_MANY)  # pyright: ignore[reportIndexIssue]
    return places


@_inverse.register_fake
def _same_shape(order: Tensor) -> Tensor:
    return torch.empty_like(order)
