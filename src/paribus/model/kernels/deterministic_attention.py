"""Attention on CUDA whose gradient repeats bit for bit: forward by cuDNN, back by kernels of
our own in a fixed order.

cuDNN adds to the slopes of queries by atomics, and torch (2.11 to 2.13) has no way to ask it not
to. Its forward pass has none. FlashAttention-2 can be asked, but takes 1.4 to 1.5 times as long as
cuDNN on an H200.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

try:
    from paribus.model.kernels.deterministic_attention_triton import (
        attention_deltas,
        key_value_gradients,
        query_gradients,
    )
except ImportError:  # triton comes with torch's CUDA builds alone
    attention_deltas = key_value_gradients = query_gradients = None

_cudnn_attention = torch.ops.aten._scaled_dot_product_cudnn_attention
MAX_HEAD_WIDTH = 128  # channels of a head that a block fits the chip's own memory with
_AMPERE = (8, 0)  # the first chips whose cuDNN computes attention
_Tiles = tuple[int, int, int, int]  # queries, keys, warps and stages of a block


def use_deterministic_backward(query: Tensor, value: Tensor) -> bool:
    """Is a deterministic gradient asked for, and is it ours to compute?"""
    return (
        torch.are_deterministic_algorithms_enabled()
        and key_value_gradients is not None
        and query.device.type == "cuda"
        and query.dtype in (torch.bfloat16, torch.float16)
        and query.shape[-1] % 8 == 0
        and value.shape[-1] % 8 == 0
        and max(query.shape[-1], value.shape[-1]) <= MAX_HEAD_WIDTH
        and query.shape[2] > 1
        and value.shape[2] > 1
        and torch.cuda.get_device_capability(query.device) >= _AMPERE
    )


def deterministic_attention(
    query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, causal: bool, scale: float
) -> Tensor:
    """Causal or full attention whose gradient is added up in a fixed order."""
    return _DeterministicAttention.apply(  # pyright: ignore[reportReturnType]
        query_BHTE, key_BHSE, value_BHSE, causal, scale
    )


class _DeterministicAttention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
    ) -> Tensor:
        out, logsumexp, *_ = _cudnn_attention(
            query, key, value, None, True, 0.0, causal, False, scale=scale
        )
        ctx.save_for_backward(query, key, value, out, logsumexp)
        ctx.causal, ctx.scale = causal, scale
        return out

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        query, key, value, out, logsumexp = ctx.saved_tensors
        prefix = 0 if ctx.causal else key.shape[2]
        return (
            *attention_gradients(grad, query, key, value, out, logsumexp, prefix, ctx.scale),
            None,
            None,
        )


@torch.library.custom_op("paribus::attention_slopes", mutates_args=())
def attention_gradients(
    grad: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    out: Tensor,
    logsumexp: Tensor,
    prefix: int,
    scale: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """What queries, keys and values do to the loss; keys before `prefix` are seen by all, the
    others causally.
    """
    assert attention_deltas is not None
    assert key_value_gradients is not None
    assert query_gradients is not None
    grad, query, key, value, out = (
        _contiguous_channels(tensor) for tensor in (grad, query, key, value, out)
    )
    (n_sequences, n_heads, n_queries, width), n_keys, n_value = (
        query.shape,
        key.shape[2],
        value.shape[3],
    )
    logsumexp, heads = logsumexp.contiguous(), n_sequences * n_heads
    deltas = torch.empty((heads, n_queries), device=query.device)
    sizes = {
        "WIDTH": width,
        "VALUE": n_value,
        "E": _power_of_two(width),
        "EV": _power_of_two(n_value),
    }
    attention_deltas[(-(-n_queries // 64), heads)](  # pyright: ignore[reportIndexIssue]
        out,
        grad,
        deltas,
        n_queries,
        *out.stride()[:3],
        *grad.stride()[:3],
        n_heads,
        VALUE=n_value,
        EV=sizes["EV"],
        M=64,
    )
    to_query, to_key, to_value = (_empty_gradient(tensor) for tensor in (query, key, value))
    operands = (query, key, value, grad)
    strides = [stride for tensor in operands for stride in tensor.stride()[:3]]
    m, n, warps, stages = key_tiles(max(width, n_value))
    key_value_gradients[(-(-n_keys // n), heads)](  # pyright: ignore[reportIndexIssue]
        *operands,
        logsumexp,
        deltas,
        to_key,
        to_value,
        n_queries,
        n_keys,
        prefix,
        scale,
        *strides,
        *to_key.stride()[:3],
        *to_value.stride()[:3],
        n_heads,
        **sizes,
        M=m,
        N=n,
        num_warps=warps,
        num_stages=stages,
    )
    m, n, warps, stages = query_tiles(max(width, n_value))
    query_gradients[(-(-n_queries // m), heads)](  # pyright: ignore[reportIndexIssue]
        *operands,
        logsumexp,
        deltas,
        to_query,
        n_queries,
        n_keys,
        prefix,
        scale,
        *strides,
        *to_query.stride()[:3],
        n_heads,
        **sizes,
        M=m,
        N=n,
        num_warps=warps,
        num_stages=stages,
    )
    return to_query, to_key, to_value


@attention_gradients.register_fake
def _fake_attention_gradients(
    grad: Tensor, query: Tensor, key: Tensor, value: Tensor, *others: Tensor | float
) -> tuple[Tensor, Tensor, Tensor]:
    return _empty_gradient(query), _empty_gradient(key), _empty_gradient(value)


def key_tiles(width: int) -> _Tiles:
    """Of the walk over queries, measured on an H200 for heads of 64."""
    if width <= 64:
        return (128, 64, 4, 2)
    return (64, 64, 4, 2)


def query_tiles(width: int) -> _Tiles:
    """Of the walk over keys, measured on an H200 for heads of 64."""
    if width <= 64:
        return (64, 64, 4, 3)
    return (64, 64, 4, 2)


def _contiguous_channels(tensor: Tensor) -> Tensor:
    """As it is where the channels of a head lie side by side, else a copy."""
    if tensor.stride(-1) == 1:
        return tensor
    return tensor.contiguous()


def _empty_gradient(tensor_BHTE: Tensor) -> Tensor:
    """Room for slopes, laid out position by position as projections read them."""
    n_sequences, n_heads, length, width = tensor_BHTE.shape
    return tensor_BHTE.new_empty((n_sequences, length, n_heads, width)).transpose(1, 2)


def _power_of_two(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())
