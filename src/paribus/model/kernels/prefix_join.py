"""Prefix attention on CUDA: two partial attentions joined by their log-sum-exp.

Attention over two disjoint sets of keys is the mean of both answers weighted by exp(log-sum-exp).
Given the joined answer and log-sum-exp, each part's own backward pass yields its exact share of the
gradient.
"""

from typing import Any

import torch
from torch import Tensor

from paribus.model.kernels.deterministic_attention import (
    attention_gradients,
    use_deterministic_backward,
)
from paribus.model.kernels.lazy_compile import lazy_compile

_cudnn_forward = torch.ops.aten._scaled_dot_product_cudnn_attention
_cudnn_backward = torch.ops.aten._scaled_dot_product_cudnn_attention_backward


def joined_prefix_attention(
    query_BHTE: Tensor, key_BHTE: Tensor, value_BHTE: Tensor, prefix: int, scale: float
) -> Tensor:
    """Prefix attention by cuDNN: all queries over the prefix's keys, joined with the rest over
    itself, causally.
    """
    return _JoinedPrefixAttention.apply(  # pyright: ignore[reportReturnType]
        query_BHTE, key_BHTE, value_BHTE, prefix, scale
    )


class _JoinedPrefixAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, prefix: int, scale: float
    ) -> Tensor:
        rest = slice(prefix, None)
        out, logsumexp, *_, seed, offset, _ = _cudnn_forward(
            query,
            key[:, :, :prefix],
            value[:, :, :prefix],
            None,
            True,
            0.0,
            False,
            False,
            scale=scale,
        )
        rest_out, rest_logsumexp, *_ = _cudnn_forward(
            query[:, :, rest],
            key[:, :, rest],
            value[:, :, rest],
            None,
            True,
            0.0,
            True,
            False,
            scale=scale,
        )
        lazy_compile(_join)(out, logsumexp, rest_out, rest_logsumexp, prefix)
        ctx.save_for_backward(query, key, value, out, logsumexp, seed, offset)
        ctx.prefix, ctx.scale, ctx.in_order = (
            prefix,
            scale,
            use_deterministic_backward(query, value),
        )
        return out

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        query, key, value, out, logsumexp, seed, offset = ctx.saved_tensors
        if ctx.in_order:
            return (
                *attention_gradients(
                    grad, query, key, value, out, logsumexp, ctx.prefix, ctx.scale
                ),
                None,
                None,
            )
        length, prefix, rest = query.shape[2], ctx.prefix, slice(ctx.prefix, None)
        grad = torch.empty_strided(
            out.shape, out.stride(), dtype=out.dtype, device=out.device
        ).copy_(grad)
        tail = (None, None, None)
        first = _cudnn_backward(
            grad,
            query,
            key[:, :, :prefix],
            value[:, :, :prefix],
            out,
            logsumexp,
            seed,
            offset,
            *tail,
            length,
            prefix,
            0.0,
            False,
            scale=ctx.scale,
        )
        second = _cudnn_backward(
            grad[:, :, rest],
            query[:, :, rest],
            key[:, :, rest],
            value[:, :, rest],
            out[:, :, rest],
            logsumexp[:, :, rest],
            seed,
            offset,
            *tail,
            length - prefix,
            length - prefix,
            0.0,
            True,
            scale=ctx.scale,
        )
        return *lazy_compile(_join_gradients)(first, second, prefix), None, None


def _join(
    out: Tensor, logsumexp: Tensor, other: Tensor, other_logsumexp: Tensor, prefix: int
) -> None:
    """Mix `other` into the rows of `out` after the prefix, and its log-sum-exp likewise."""
    there, there_logsumexp = out[:, :, prefix:].float(), logsumexp[:, :, prefix:]
    share = torch.sigmoid(other_logsumexp - there_logsumexp)
    out[:, :, prefix:] = (there + (other.float() - there) * share).to(out.dtype)
    logsumexp[:, :, prefix:] = torch.logaddexp(there_logsumexp, other_logsumexp)


def _join_gradients(
    first: tuple[Tensor, Tensor, Tensor], second: tuple[Tensor, Tensor, Tensor], prefix: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The whole gradients, laid out position by position as projections read them.

    `first` and `second` are those of query, key and value under the prefix and after it.
    """
    query, key_0, value_0 = (tensor.transpose(1, 2) for tensor in first)
    query_1, key_1, value_1 = (tensor.transpose(1, 2) for tensor in second)
    query = torch.cat([query[:, :prefix], query[:, prefix:] + query_1], 1)
    key, value = torch.cat([key_0, key_1], 1), torch.cat([value_0, value_1], 1)
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
