"""Attention without a mask in memory: SDPA's full and causal forms, and what can be made of them.

A reversed triangle is a causal one of flipped sequences. A prefix is a rectangle (everyone sees the prefix) and a
causal triangle (the rest sees itself). Groups of heads are done one after another, or at once where flips suffice.
Where every query sees all of some keys and a gradient will be asked for, those keys are centred first on CUDA: softmax
cannot tell, and no row's log-sum-exp is far below zero. There cuDNN's gradient would be NaN unless queries and keys
fill its tiles, which it pads with scores of 0 (torch 2.11 to 2.13, pytorch/pytorch#196678, NVIDIA/cudnn-frontend#1072).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.masks import Causal, Full, Prefix, Reverse, Rule
from paribus.model.kernels.centred import centred
from paribus.model.kernels.joined import flipped_heads, joined_prefix
from paribus.model.kernels.ordered import in_order, ordered
from paribus.model.kernels.view import View

_TILE = 128  # positions: as wide as cuDNN's widest


def obstacle(view: View, half: bool, d_head: int) -> str | None:
    """Why this view cannot be made of full and causal attention; None if it can."""
    if len(view.groups) > 1 and view.device.type == "cuda" and not _flippable(view):
        # cuDNN's gradient was wrong for some cuts (torch 2.11, heads beside channels).
        return "it would cut the heads apart, which cuDNN does not do right"
    if not all(_fusible(rule, view, half, d_head) for rule in view.groups):
        return "it is not made of full and causal attention over the same positions"
    return None


def _fusible(rule: Rule, view: View, half: bool, d_head: int) -> bool:
    match rule:
        case Full():
            return True
        case Causal():
            return view.aligned or _newest(view)
        case Reverse():
            return view.aligned
        case Prefix():
            if not view.aligned or view.keys.start or isinstance(view.keys.prefix, Tensor):
                return False
            return view.device.type == "cpu" or (view.device.type == "cuda" and half and d_head % 8 == 0)
        case _:
            return False


def _newest(view: View) -> bool:
    """A single query that comes last sees every key."""
    return view.queries.length == 1 and view.queries.start == view.keys.start + view.keys.length - 1


def fused(query_BHTE: Tensor, key_BHSE: Tensor, value_BHSE: Tensor, view: View, scale: float) -> Tensor:
    """Each group of heads by the form its rule has; there must be no `obstacle`."""
    groups = view.groups
    if _flippable(view):
        return _flipped_groups(query_BHTE, key_BHSE, value_BHSE, groups, scale)
    if len(groups) == 1:
        return _one(query_BHTE, key_BHSE, value_BHSE, groups[0], view, scale)
    parts = [
        _one(q, k, v, rule, view, scale)
        for rule, q, k, v in zip(groups, *_divided((query_BHTE, key_BHSE, value_BHSE), len(groups)), strict=True)
    ]
    return torch.cat(parts, 1)


def _flippable(view: View) -> bool:
    """Do all heads become causal when some are flipped?"""
    return view.aligned and Reverse() in view.groups and set(view.groups) <= {Causal(), Reverse()}


def _flipped_groups(query: Tensor, key: Tensor, value: Tensor, groups: tuple[Rule, ...], scale: float) -> Tensor:
    """Heads that look ahead are flipped, all heads are causal, and the answers are flipped back: one call."""
    backward = tuple(rule == Reverse() for rule in groups)
    query, key, value = flipped_heads((query, key, value), backward)
    (out,) = flipped_heads((_attended(query, key, value, True, scale),), backward)
    return out


def _divided(tensors: tuple[Tensor, ...], n: int) -> list[tuple[Tensor, ...]]:
    return [tensor.chunk(n, 1) for tensor in tensors]


def _one(query: Tensor, key: Tensor, value: Tensor, rule: Rule, view: View, scale: float) -> Tensor:
    match rule:
        case Causal() if view.aligned:
            return _attended(query, key, value, True, scale)
        case Full() | Causal():
            if view.queries.length % _TILE or view.keys.length % _TILE:
                key = _kept_near(key, view.keys.length)
            return _attended(query, key, value, False, scale)
        case Reverse():
            return _flipped_groups(query, key, value, (rule,), scale)
        case Prefix():
            prefix = view.keys.prefix
            assert isinstance(prefix, int)
            key = _kept_near(key, prefix)
            if prefix >= view.keys.length:
                return _attended(query, key, value, False, scale)
            if query.device.type == "cuda" and _joins(query, value):
                return joined_prefix(query, key, value, prefix, scale)
            return _split_prefix(query, key, value, prefix, scale)
        case _:
            raise AssertionError(f"{rule} is not fusible")


def _attended(query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float) -> Tensor:
    """Causal or full attention, with a gradient in a fixed order where that is asked; other devices' repeats anyhow."""
    if in_order(query, value):
        return ordered(query, key, value, causal, scale)
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, scale=scale)


def _joins(query: Tensor, value: Tensor) -> bool:
    """May two partial attentions be joined? Where a fixed order is asked, only if their gradient is ours."""
    return in_order(query, value) or not torch.are_deterministic_algorithms_enabled()


def _kept_near(key_BHSE: Tensor, n_seen: int) -> Tensor:
    """Keys as cuDNN's gradient may have them, if it is what computes here."""
    by_cudnn = key_BHSE.device.type == "cuda" and key_BHSE.dtype in (torch.bfloat16, torch.float16)
    by_cudnn = by_cudnn and not torch.are_deterministic_algorithms_enabled()
    return centred(key_BHSE, n_seen) if by_cudnn and torch.is_grad_enabled() else key_BHSE


def _split_prefix(query: Tensor, key: Tensor, value: Tensor, prefix: int, scale: float) -> Tensor:
    """Two calls: the prefix sees itself, the rest sees everything up to itself."""
    inner = F.scaled_dot_product_attention(query[:, :, :prefix], key[:, :, :prefix], value[:, :, :prefix], scale=scale)
    length = query.shape[2]
    rest = torch.ones(length - prefix, length, dtype=torch.bool, device=query.device).tril(prefix)
    outer = F.scaled_dot_product_attention(query[:, :, prefix:], key, value, attn_mask=rest, scale=scale)
    return torch.cat([inner, outer], 2)
