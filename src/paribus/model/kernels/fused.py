"""Attention without a mask in memory: SDPA's full and causal forms, and what can be made of
them.

A reversed triangle is a causal one of flipped sequences. A prefix is a rectangle (everyone sees the
prefix) and a causal triangle (the rest sees itself). Groups of heads are done one after another, or
at once where flips suffice. Where every query sees all of some keys and a gradient will be asked
for, those keys are centred first on CUDA: softmax cannot tell, and no row's log-sum-exp is far
below zero. There cuDNN's gradient would be NaN unless queries and keys fill its tiles, which it
pads with scores of 0 (torch 2.11 to 2.13, pytorch/pytorch#196678, NVIDIA/cudnn-frontend#1072).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.masks import Causal, Full, Prefix, Reverse, Rule
from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.centred_keys import centred_keys
from paribus.model.kernels.deterministic_attention import (
    deterministic_attention,
    use_deterministic_backward,
)
from paribus.model.kernels.flipped_heads import flipped_heads
from paribus.model.kernels.prefix_join import joined_prefix_attention

_TILE = 128  # positions: as wide as cuDNN's widest


def fused_obstacle(mask: AttentionMask, is_half: bool, d_head: int) -> str | None:
    """Why this view cannot be made of full and causal attention; None if it can."""
    if len(mask.head_rules) > 1 and mask.device.type == "cuda" and not _flippable(mask):
        # cuDNN's gradient was wrong for some cuts (torch 2.11, heads beside channels).
        return "it would cut the heads apart, which cuDNN does not do right"
    if not all(_fusible(rule, mask, is_half, d_head) for rule in mask.head_rules):
        return "it is not made of full and causal attention over the same positions"
    return None


def _fusible(rule: Rule, mask: AttentionMask, is_half: bool, d_head: int) -> bool:
    match rule:
        case Full():
            return True
        case Causal():
            return mask.is_aligned or _is_last_query(mask) or _is_causal_tail(rule, mask)
        case Reverse():
            return mask.is_aligned
        case Prefix() if _is_last_query(mask) or _is_causal_tail(rule, mask):
            return True
        case Prefix():
            if not mask.is_aligned or mask.keys.start or isinstance(mask.keys.prefix, Tensor):
                return False
            return mask.device.type == "cpu" or (
                mask.device.type == "cuda" and is_half and d_head % 8 == 0
            )
        case _:
            return False


def _is_last_query(mask: AttentionMask) -> bool:
    """A single query that comes last sees every key."""
    if mask.queries.places_BT is not None or mask.keys.places_BT is not None:
        return False
    return mask.queries.length == 1 and mask.queries.start == mask.keys.start + mask.keys.length - 1


def _is_causal_tail(rule: Rule, mask: AttentionMask) -> bool:
    """Do the last positions see all before them? On CUDA there is a kernel for that, whose gradient
    has no fixed order.
    """
    if mask.device.type != "cuda" or not mask.is_tail or mask.is_trained:
        return False
    if rule == Causal():
        return True
    return isinstance(mask.keys.prefix, int) and mask.queries.start >= mask.keys.prefix


def fused(
    query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, mask: AttentionMask, scale: float
) -> Tensor:
    """Each group of heads by the form its rule has; there must be no `fused_obstacle`."""
    groups = mask.head_rules
    if _flippable(mask):
        return _attend_flipped(query_BHTE, key_BHSE, value_BHSE, groups, scale)
    if len(groups) == 1:
        return _attend_group(query_BHTE, key_BHSE, value_BHSE, groups[0], mask, scale)
    parts = [
        _attend_group(q, k, v, rule, mask, scale)
        for rule, q, k, v in zip(
            groups, *_chunk_heads((query_BHTE, key_BHSE, value_BHSE), len(groups)), strict=True
        )
    ]
    return torch.cat(parts, 1)


def _flippable(mask: AttentionMask) -> bool:
    """Do all heads become causal when some are flipped?"""
    return (
        mask.is_aligned
        and Reverse() in mask.head_rules
        and set(mask.head_rules) <= {Causal(), Reverse()}
    )


def _attend_flipped(
    query: Tensor, key: Tensor, value: Tensor, groups: tuple[Rule, ...], scale: float
) -> Tensor:
    """Heads that look ahead are flipped, all heads are causal, and the answers are flipped
    back: one call.
    """
    backward = tuple(rule == Reverse() for rule in groups)
    query, key, value = flipped_heads((query, key, value), backward)
    (out,) = flipped_heads((_attend(query, key, value, True, scale),), backward)
    return out


def _chunk_heads(tensors: tuple[Tensor, ...], n: int) -> list[tuple[Tensor, ...]]:
    return [tensor.chunk(n, 1) for tensor in tensors]


def _attend_group(
    query: Tensor, key: Tensor, value: Tensor, rule: Rule, mask: AttentionMask, scale: float
) -> Tensor:
    match rule:
        case Causal() if mask.is_aligned:
            return _attend(query, key, value, True, scale)
        case Causal() | Prefix() if not _is_last_query(mask) and _is_causal_tail(rule, mask):
            return _attend_causal_tail(query, key, value, scale)
        case Full() | Causal():
            return _attend_to_all(query, key, value, mask, scale)
        case Reverse():
            return _attend_flipped(query, key, value, (rule,), scale)
        case Prefix() if _is_last_query(mask):
            return _attend_to_all(query, key, value, mask, scale)
        case Prefix():
            prefix = mask.keys.prefix
            assert isinstance(prefix, int)
            key = _centred_for_cudnn(key, prefix)
            if prefix >= mask.keys.length:
                return _attend(query, key, value, False, scale)
            if query.device.type == "cuda" and _can_join(query, value):
                return joined_prefix_attention(query, key, value, prefix, scale)
            return _attend_split_prefix(query, key, value, prefix, scale)
        case _:
            raise AssertionError(f"{rule} is not fusible")


def _attend_causal_tail(query: Tensor, key: Tensor, value: Tensor, scale: float) -> Tensor:
    """The last positions see all before them."""
    # imports torch's compiler, which takes a second
    from torch.nn.attention.bias import causal_lower_right

    tail = causal_lower_right(query.shape[2], key.shape[2])
    return F.scaled_dot_product_attention(query, key, value, attn_mask=tail, scale=scale)


def _attend_to_all(
    query: Tensor, key: Tensor, value: Tensor, mask: AttentionMask, scale: float
) -> Tensor:
    """Every query sees every key."""
    if mask.queries.length % _TILE or mask.keys.length % _TILE:
        key = _centred_for_cudnn(key, mask.keys.length)
    return _attend(query, key, value, False, scale)


def _attend(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    """Causal or full attention, with a gradient in a fixed order where that is asked; other
    devices' repeats anyhow.
    """
    if use_deterministic_backward(query, value):
        return deterministic_attention(query, key, value, causal, scale)
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)


def _can_join(query: Tensor, value: Tensor) -> bool:
    """May two partial attentions be joined? Where a fixed order is asked, only if their
    gradient is ours.
    """
    return (
        use_deterministic_backward(query, value) or not torch.are_deterministic_algorithms_enabled()
    )


def _centred_for_cudnn(key_BHSE: Tensor, n_seen: int) -> Tensor:
    """Keys as cuDNN's gradient may have them, if it is what computes here."""
    by_cudnn = key_BHSE.device.type == "cuda" and key_BHSE.dtype in (torch.bfloat16, torch.float16)
    by_cudnn = by_cudnn and not torch.are_deterministic_algorithms_enabled()
    if by_cudnn and torch.is_grad_enabled():
        return centred_keys(key_BHSE, n_seen)
    return key_BHSE


def _attend_split_prefix(
    query: Tensor, key: Tensor, value: Tensor, prefix: int, scale: float
) -> Tensor:
    """Two calls: the prefix sees itself, the rest sees everything up to itself."""
    inner = F.scaled_dot_product_attention(
        query[:, :, :prefix], key[:, :, :prefix], value[:, :, :prefix], scale=scale
    )
    length = query.shape[2]
    rest = torch.ones(length - prefix, length, dtype=torch.bool, device=query.device).tril(prefix)
    outer = F.scaled_dot_product_attention(
        query[:, :, prefix:], key, value, attn_mask=rest, scale=scale
    )
    return torch.cat([inner, outer], 2)
