"""Rows of a table, and the gradient of reading them: on CUDA in a fixed order, where
determinism is asked.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

try:
    from paribus.model.lookup_triton import chunk_sums, invert_permutation, row_totals
except ImportError:  # triton comes with torch's CUDA builds alone
    chunk_sums = invert_permutation = row_totals = None

_CHUNK_ROWS = 64  # readings of one row that are added up apart
# channels, and readings × channels, that a program has at hand
_MAX_BLOCK_WIDTH, _BLOCK_ELEMENTS = (
    1024,
    4096,
)
_MAX_INT16_ROWS = 2**15  # rows from which on a number of 16 bits cannot name them
_INVERT_BLOCK = 1024  # places of a permutation that a program inverts


def look_up(indices: Tensor, table_VD: Tensor) -> Tensor:
    """The rows of a table at some places, [..., D]; as F.embedding, but for how its gradient is
    added up.
    """
    if (
        row_totals is None
        or table_VD.device.type != "cuda"
        or not torch.are_deterministic_algorithms_enabled()
    ):
        return F.embedding(indices, table_VD)
    return _LookUp.apply(indices, table_VD)  # pyright: ignore[reportReturnType]


class _LookUp(torch.autograd.Function):
    """Torch's own gradient sorts too, but then adds the readings of a row one by one."""

    @staticmethod
    def forward(ctx: Any, indices: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(indices)
        ctx.n_rows, ctx.dtype = len(table), table.dtype
        return F.embedding(indices, table)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[None, Tensor]:
        (places,) = ctx.saved_tensors
        return None, row_sums(grad.flatten(0, -2), places.flatten(), ctx.n_rows).to(ctx.dtype)


@torch.library.custom_op("paribus::row_sums", mutates_args=())
def row_sums(grads_MD: Tensor, indices_M: Tensor, n_rows: int) -> Tensor:
    """The sum of the gradients that belong to each row of a table, [n_rows, D], added up in a
    fixed order.
    """
    assert chunk_sums is not None
    assert row_totals is not None
    (n_read, width), grads = grads_MD.shape, grads_MD.contiguous()
    rows, order = indices_M.to(torch.int16 if n_rows <= _MAX_INT16_ROWS else torch.int32).sort(
        stable=True
    )
    numbers = torch.arange(n_rows, device=grads.device, dtype=rows.dtype)
    ends = torch.searchsorted(rows, numbers, right=True)
    n_chunks, wide = n_read // _CHUNK_ROWS, min(_power_of_two(width), _MAX_BLOCK_WIDTH)
    n_across = -(-width // wide)
    chunks = grads.new_empty((max(n_chunks, 1), width), dtype=torch.float32)
    if n_chunks:
        few = min(wide, _BLOCK_ELEMENTS // _CHUNK_ROWS)
        chunk_sums[(n_chunks, -(-width // few))](  # pyright: ignore[reportIndexIssue]
            grads, order, ends, rows, chunks, width, CHUNK=_CHUNK_ROWS, WIDE=few
        )
    sums = grads.new_empty((n_rows, width))
    row_totals[(n_rows, n_across)](  # pyright: ignore[reportIndexIssue]
        grads,
        order,
        ends,
        chunks,
        sums,
        width,
        CHUNK=_CHUNK_ROWS,
        ROWS=min(_BLOCK_ELEMENTS // wide, _CHUNK_ROWS),
        WIDE=wide,
    )
    return sums


@row_sums.register_fake
def _fake_row_sums(grads_MD: Tensor, indices_M: Tensor, n_rows: int) -> Tensor:
    return grads_MD.new_empty((n_rows, grads_MD.shape[1]))


def _power_of_two(width: int) -> int:
    """The least power of two that is as much, and no less than 16."""
    return max(16, 1 << (width - 1).bit_length())


def inverse_permutation(permutation: Tensor) -> Tensor:
    """Where each place of a permutation went; on CUDA without the sort that torch takes for a
    fixed order.
    """
    if invert_permutation is None or permutation.device.type != "cuda":
        return torch.empty_like(permutation).scatter_(
            0, permutation, torch.arange(len(permutation), device=permutation.device)
        )
    return _inverse_permutation_op(permutation)


@torch.library.custom_op("paribus::inverse", mutates_args=())
def _inverse_permutation_op(permutation: Tensor) -> Tensor:
    assert invert_permutation is not None
    places = torch.empty_like(permutation)
    n_rows = len(permutation)
    grid = (-(-n_rows // _INVERT_BLOCK),)
    launch = invert_permutation[grid]  # pyright: ignore[reportIndexIssue]
    launch(permutation, places, n_rows, ROWS=_INVERT_BLOCK)
    return places


@_inverse_permutation_op.register_fake
def _fake_inverse(permutation: Tensor) -> Tensor:
    return torch.empty_like(permutation)
