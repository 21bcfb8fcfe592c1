"""Softmax and its gradient where the logits lie: after it they hold the slope of the loss.

The slope of a row is weight · ((1 + 2 z · log-sum-exp) · probabilities − answer).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

try:
    from paribus.train.slope_kernel import kernel
except ImportError:  # triton comes with torch's CUDA builds alone
    kernel = None

_BLOCK, _WARPS = 8192, 32  # few rows at a time, so that the second reading of a row finds it in the cache


class Asked(NamedTuple):
    """The answers to a chunk of positions, and what each counts."""

    targets_M: Tensor
    weights_M: Tensor


def slope_(logits_MV: Tensor, asked: Asked, z_loss: float, learning: bool) -> tuple[Tensor, Tensor]:
    """Each row's log-sum-exp and the logit of its answer; if learning, the logits become their slope in place."""
    if logits_MV.device.type == "cuda" and kernel is not None:
        return _on_cuda(logits_MV, asked, z_loss, learning)
    wide = torch.promote_types(logits_MV.dtype, torch.float32)
    spread, at = logits_MV.to(wide).logsumexp(-1), asked.targets_M[:, None]
    answer = logits_MV.gather(-1, at)[:, 0].to(wide)
    if learning:
        weights = asked.weights_M
        factor = weights * (1 + 2 * z_loss * spread)
        torch.exp_(logits_MV.sub_(spread[:, None])).mul_(factor[:, None])
        logits_MV.scatter_add_(-1, at, -weights[:, None].to(logits_MV.dtype))
    return spread, answer


def _on_cuda(logits: Tensor, asked: Asked, z_loss: float, learning: bool) -> tuple[Tensor, Tensor]:
    """One kernel; a row's second reading comes from the chip's own memory."""
    spread, answer = (torch.empty(len(logits), device=logits.device) for _ in range(2))
    assert kernel is not None
    kernel[(len(logits),)](  # pyright: ignore[reportIndexIssue]
        logits, asked.targets_M, asked.weights_M, spread, answer, logits.shape[1], logits.stride(0), z_loss,
        LEARNING=learning, BLOCK=_BLOCK, num_warps=_WARPS,
    )  # fmt: skip
    return spread, answer
