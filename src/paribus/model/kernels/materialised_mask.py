"""Attention with the whole mask in memory: `dense` is the definition, `masked` hands it to SDPA."""

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.bias_backward import biased_attention


def dense(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    attention_mask: AttentionMask,
    scale: float,
    bias: Tensor | None,
) -> Tensor:
    """softmax(scale · Q Kᵀ + bias over the visible) V, the truth every other kernel is held
    against.

    A query that sees nothing gives zeros.
    """
    scores = query_BHTE @ key_BHSE.transpose(-1, -2) * scale
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if bias is not None:
        scores = scores + bias
    visible = attention_mask.dense_mask
    scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
    # A blind row is uniform here; the product with its mask makes it zero and leaves every other
    # row alone.
    weights = scores.softmax(-1).to(value_BHSE.dtype) * visible
    return weights @ value_BHSE


def masked(
    query_BHTE: Tensor,
    key_BHSE: Tensor,
    value_BHSE: Tensor,
    attention_mask: AttentionMask,
    scale: float,
    bias: Tensor | None,
) -> Tensor:
    """SDPA with a boolean mask, or with the bias where visible."""
    # backends disagree on rows without a key, so none reaches them
    has_visible_key = attention_mask.has_visible_key
    if bias is not None:
        hidden = ~attention_mask.filled_mask
        mask = bias.masked_fill(hidden, float("-inf")).to(query_BHTE.dtype)
    elif query_BHTE.shape[2] == 1 and _adds_mask(query_BHTE):
        mask = attention_mask.added_mask
    else:
        mask = attention_mask.filled_mask
    if mask.requires_grad and mask.device.type == "cpu" and not torch.compiler.is_compiling():
        out = biased_attention(query_BHTE, key_BHSE, value_BHSE, mask, scale)
    else:
        with _sdpa_backends(mask.device):
            out = F.scaled_dot_product_attention(
                query_BHTE, key_BHSE, value_BHSE, attn_mask=mask, scale=scale
            )
    if has_visible_key is None:
        return out
    return out.masked_fill(~has_visible_key, 0.0)


def _adds_mask(query: Tensor) -> bool:
    """Does SDPA make a sum of a boolean mask, which layers could share?"""
    return query.device.type == "cpu" and query.dtype == torch.float32


def _sdpa_backends(device: torch.device) -> AbstractContextManager[object]:
    """All but cuDNN, whose gradient under a mask is NaN where a row's scores are all far below
    zero.
    """
    if device.type == "cuda":
        return sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH])
    return nullcontext()
