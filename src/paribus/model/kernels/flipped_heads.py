"""Flipped heads: the sequences of some heads reversed, so that attention under a reversed triangle
is causal.
"""

from typing import Any

import torch
from torch import Tensor

from paribus.model.kernels.lazy_compile import lazy_compile


def flipped_heads(
    tensors_BHTE: tuple[Tensor, ...], is_flipped: tuple[bool, ...]
) -> tuple[Tensor, ...]:
    """The tensors with the sequences of every marked group of heads reversed."""
    return _FlippedHeads.apply(is_flipped, *tensors_BHTE)  # pyright: ignore[reportReturnType]


class _FlippedHeads(torch.autograd.Function):
    """Flips heads: its own inverse, so its own gradient."""

    @staticmethod
    def forward(ctx: Any, is_flipped: tuple[bool, ...], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.is_flipped = is_flipped
        return _flip_compiled(tensors, is_flipped)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, *grads: Tensor
    ) -> tuple[Tensor | None, ...]:
        return None, *_flip_compiled(grads, ctx.is_flipped)


def _flip_compiled(
    tensors_BHTE: tuple[Tensor, ...], is_flipped: tuple[bool, ...]
) -> tuple[Tensor, ...]:
    """On CUDA one kernel; written out, these moves of memory would cost as much as the
    attention.
    """
    if tensors_BHTE[0].device.type == "cpu":
        flip = _flip
    else:
        flip = lazy_compile(_flip)
    return flip(tensors_BHTE, is_flipped)


def _flip(tensors_BHTE: tuple[Tensor, ...], is_flipped: tuple[bool, ...]) -> tuple[Tensor, ...]:
    """One gather of rows, heads next to channels, as projections give and take them."""
    _, n_heads, length, _ = tensors_BHTE[0].shape
    device = tensors_BHTE[0].device
    place, head = torch.arange(length, device=device)[:, None], torch.arange(n_heads, device=device)
    source = place.expand(length, n_heads)
    for group, is_group_flipped in enumerate(is_flipped):
        if is_group_flipped:
            source = torch.where(
                head * len(is_flipped) // n_heads == group, length - 1 - place, source
            )
    return tuple(tensor.transpose(1, 2)[:, source, head].transpose(1, 2) for tensor in tensors_BHTE)
