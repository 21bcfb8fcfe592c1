"""Which kernel runs: a pure function of rule, shape, precision and device, written from
`benchmarks/masks.py`.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from paribus.errors import SpecError, UnsupportedError
from paribus.model.kernels.attention_mask import AttentionMask
from paribus.model.kernels.flex import flex
from paribus.model.kernels.fused import fused, fused_obstacle
from paribus.model.kernels.materialised_mask import dense, masked

Kernel = Literal["dense", "masked", "fused", "flex"]
KernelChoice = Literal["auto", "dense", "masked", "fused", "flex"]


class ScoreChange(NamedTuple):
    """What turns a product of query and key into a score: a factor, then perhaps a bias."""

    scale: float
    bias: Tensor | None = None


def parse_kernel(name: str) -> KernelChoice:
    """The kernel a person asked for."""
    for choice in get_args(KernelChoice):
        if name == choice:
            return choice
    raise SpecError(f"kernel is {name!r}; use one of {', '.join(get_args(KernelChoice))}")


def choose_kernel(
    mask: AttentionMask,
    dtype: torch.dtype,
    d_head: int,
    has_bias: bool,
    kernel: KernelChoice = "auto",
) -> Kernel:
    """The fastest kernel that can do this view, or the wanted one; UnsupportedError if that
    cannot.
    """
    half = dtype in (torch.bfloat16, torch.float16)
    why_not = {
        "dense": None,
        "masked": None,
        "fused": _fused_refusal(mask, half, d_head, has_bias),
        "flex": _flex_refusal(mask, d_head, has_bias),
    }
    if kernel != "auto":
        if why_not[kernel] is not None:
            able = [name for name, reason in why_not.items() if reason is None]
            raise UnsupportedError(
                f"kernel {kernel!r} does not support the mask {mask.rule} on {mask.device.type}:"
                f" {why_not[kernel]}; use {', '.join(able)} or auto"
            )
        return kernel
    if why_not["fused"] is None:
        return "fused"
    if why_not["flex"] is None and not mask.is_passing:  # which is compiled for every length
        return "flex"
    return "masked"


def _fused_refusal(mask: AttentionMask, half: bool, d_head: int, has_bias: bool) -> str | None:
    if has_bias:
        return "it adds no bias to the scores"
    if mask.source is not None:
        return "it knows one sequence of keys"
    return fused_obstacle(mask, half, d_head)


def _flex_refusal(mask: AttentionMask, d_head: int, has_bias: bool) -> str | None:
    if mask.device.type != "cuda":
        return "it trains on CUDA alone"
    if mask.source is not None:
        return "it knows one sequence of keys"
    if mask.queries.places_BT is not None or mask.keys.places_BT is not None:
        return "it counts positions one by one"
    if d_head < 16:
        return f"it needs heads of 16 or more, not {d_head}"
    if has_bias:
        return "it adds no bias to the scores"
    return None


def attend(
    query_BHTE: Tensor,
    key_BGSE: Tensor,
    value_BGSE: Tensor,
    mask: AttentionMask,
    scores: ScoreChange,
    kernel: KernelChoice = "auto",
) -> Tensor:
    """Attention under a view; key/value heads serve equal groups of query heads."""
    scale, bias = scores
    key, value = (
        repeat_kv(key_BGSE, query_BHTE.shape[1]),
        repeat_kv(value_BGSE, query_BHTE.shape[1]),
    )
    narrowest = min(query_BHTE.shape[-1], value_BGSE.shape[-1])
    match choose_kernel(mask, query_BHTE.dtype, narrowest, bias is not None, kernel):
        case "dense":
            return dense(query_BHTE, key, value, mask, scale, bias)
        case "masked":
            return masked(query_BHTE, key, value, mask, scale, bias)
        case "fused":
            return fused(query_BHTE, key, value, mask, scale)
        case "flex":
            return flex(query_BHTE, key, value, mask, scale)


def repeat_kv(heads_BGSE: Tensor, n_heads: int) -> Tensor:
    """Each key/value head beside every query head it serves."""
    n_sequences, n_kv_heads, length, width = heads_BGSE.shape
    if n_kv_heads == n_heads:
        return heads_BGSE
    copies = heads_BGSE[:, :, None].expand(-1, -1, n_heads // n_kv_heads, -1, -1)
    return copies.reshape(n_sequences, n_heads, length, width)
