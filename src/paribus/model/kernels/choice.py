"""Which kernel runs: a pure function of rule, shape, precision and device, written from `benchmarks/masks.py`."""

from typing import Literal, get_args

import torch
from torch import Tensor

from paribus.errors import SpecError, UnsupportedError
from paribus.model.kernels.flex import flex
from paribus.model.kernels.fused import fused, obstacle
from paribus.model.kernels.plain import dense, masked
from paribus.model.kernels.view import View

Kernel = Literal["dense", "masked", "fused", "flex"]
Wanted = Literal["auto", "dense", "masked", "fused", "flex"]


def kernel_named(name: str) -> Wanted:
    """The kernel a person asked for."""
    for known in get_args(Wanted):
        if name == known:
            return known
    raise SpecError(f"kernel is {name!r}; use one of {', '.join(get_args(Wanted))}")


def choose(view: View, dtype: torch.dtype, d_head: int, biased: bool, wanted: Wanted = "auto") -> Kernel:
    """The fastest kernel that can do this view, or the wanted one; UnsupportedError if that cannot."""
    half = dtype in (torch.bfloat16, torch.float16)
    why_not = {
        "dense": None,
        "masked": None,
        "fused": _why_not_fused(view, half, d_head, biased),
        "flex": _why_not_flex(view, d_head, biased),
    }
    if wanted != "auto":
        if why_not[wanted] is not None:
            able = [name for name, reason in why_not.items() if reason is None]
            raise UnsupportedError(
                f"kernel {wanted!r} cannot do the mask {view.rule} on {view.device.type}: {why_not[wanted]}; "
                f"use {', '.join(able)} or auto"
            )
        return wanted
    if why_not["fused"] is None:
        return "fused"
    return "flex" if why_not["flex"] is None else "masked"


def _why_not_fused(view: View, half: bool, d_head: int, biased: bool) -> str | None:
    return "it adds no bias to the scores" if biased else obstacle(view, half, d_head)


def _why_not_flex(view: View, d_head: int, biased: bool) -> str | None:
    if view.device.type != "cuda":
        return "it trains on CUDA alone"
    if d_head < 16:
        return f"it needs heads of 16 or more, not {d_head}"
    return "it adds no bias to the scores" if biased else None


def attend(
    query_BHTE: Tensor,
    key_BGSE: Tensor,
    value_BGSE: Tensor,
    view: View,
    scale: float,
    bias: Tensor | None = None,
    wanted: Wanted = "auto",
) -> Tensor:
    """Attention under a view; key/value heads serve equal groups of query heads."""
    key, value = _spread(key_BGSE, query_BHTE.shape[1]), _spread(value_BGSE, query_BHTE.shape[1])
    narrowest = min(query_BHTE.shape[-1], value_BGSE.shape[-1])
    match choose(view, query_BHTE.dtype, narrowest, bias is not None, wanted):
        case "dense":
            return dense(query_BHTE, key, value, view, scale, bias)
        case "masked":
            return masked(query_BHTE, key, value, view, scale, bias)
        case "fused":
            return fused(query_BHTE, key, value, view, scale)
        case "flex":
            return flex(query_BHTE, key, value, view, scale)


def _spread(heads_BGSE: Tensor, n_heads: int) -> Tensor:
    """Each key/value head beside every query head it serves."""
    n_sequences, n_kv_heads, length, width = heads_BGSE.shape
    if n_kv_heads == n_heads:
        return heads_BGSE
    spread = heads_BGSE[:, :, None].expand(-1, -1, n_heads // n_kv_heads, -1, -1)
    return spread.reshape(n_sequences, n_heads, length, width)
