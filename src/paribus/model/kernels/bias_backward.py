"""Attention under a bias that learns, on a CPU: the scores are made again for the gradient
instead of being kept.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.model.kept_signature import keep_signature

MAX_SCORES = 2**20  # scores held at a time on the way back: what a CPU keeps near


def biased_attention(
    query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, bias: Tensor, scale: float
) -> Tensor:
    """SDPA with a bias [1 or B, H, T, S] added to the scores; SDPA itself would keep them all
    for the bias' sake.
    """
    if not torch.is_grad_enabled():
        return _BiasedAttention.forward(query_BHTE, key_BHSE, value_BHSE, bias, scale)
    return _BiasedAttention.apply(  # pyright: ignore[reportReturnType]
        query_BHTE, key_BHSE, value_BHSE, bias, scale
    )


class _BiasedAttention(torch.autograd.Function):
    """Forward without a gradient, which SDPA does without scores in memory; back a few
    sequences at a time.
    """

    generate_vmap_rule = True

    @staticmethod
    @keep_signature
    def forward(query: Tensor, key: Tensor, value: Tensor, bias: Tensor, scale: float) -> Tensor:
        return F.scaled_dot_product_attention(
            query, key, value, attn_mask=bias.detach(), scale=scale
        )

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        *tensors, ctx.scale = inputs
        ctx.save_for_backward(*tensors, output)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        query, key, value, bias, out = ctx.saved_tensors
        drop_BHT1 = (grad * out).sum(-1, keepdim=True)
        alone = len(bias) == 1
        parts: list[tuple[Tensor, ...]] = []
        for b in _chunks(query, key):
            inputs, own_bias = (query[b], key[b], value[b]), bias if alone else bias[b]
            parts.append(_gradients(inputs, own_bias, ctx.scale, grad[b], drop_BHT1[b]))
        to_query, to_key, to_value, to_bias = zip(*parts, strict=True)
        each = torch.cat(to_bias)
        return (
            torch.cat(to_query),
            torch.cat(to_key),
            torch.cat(to_value),
            each.sum(0, keepdim=True) if alone else each,
            None,
        )


def _gradients(
    inputs: tuple[Tensor, Tensor, Tensor], bias: Tensor, scale: float, grad: Tensor, delta: Tensor
) -> tuple[Tensor, ...]:
    """What each input of softmax(scale · Q Kᵀ + bias) V does to the loss."""
    query, key, value = inputs
    query = query * scale
    weights = (query @ key.transpose(-1, -2)).add_(bias).softmax(-1)
    slope = (grad @ value.transpose(-1, -2)).sub_(delta).mul_(weights)
    to_bias = slope.sum(0, keepdim=True) if len(bias) == 1 else slope
    return (
        slope @ key * scale,
        slope.transpose(-1, -2) @ query,
        weights.transpose(-1, -2) @ grad,
        to_bias,
    )


def _chunks(query: Tensor, key: Tensor) -> list[slice]:
    n_sequences, n_heads, n_queries, _ = query.shape
    size = max(MAX_SCORES // (n_heads * n_queries * key.shape[-2]), 1)
    return [slice(begin, begin + size) for begin in range(0, n_sequences, size)]
