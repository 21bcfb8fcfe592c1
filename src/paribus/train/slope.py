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

_BLOCK, _WARPS = 1024, 4  # words at a time: of eight choices the fastest on an H200, for 4,203 words and for 50,304


class Asked(NamedTuple):
    """The answers to a chunk of positions, and what each counts."""

    targets_M: Tensor
    weights_M: Tensor


def slope_(logits_MV: Tensor, asked: Asked, z_loss: float, learning: bool) -> tuple[Tensor, Tensor]:
    """Each row's log-sum-exp and the logit of its answer; if learning, the logits become their slope in place."""
    if logits_MV.device.type == "cuda" and kernel is not None:
        return _on_cuda(logits_MV, asked, z_loss, learning)
    return _plainly(logits_MV, asked, z_loss, learning)


def _plainly(logits: Tensor, asked: Asked, z_loss: float, learning: bool) -> tuple[Tensor, Tensor]:
    """One exponential a word: the log-sum-exp is read off the likeliest word and its probability."""
    at, wide = asked.targets_M[:, None], torch.promote_types(logits.dtype, torch.float32)
    answer = logits.gather(-1, at)[:, 0].to(wide)
    if not learning:
        return logits.to(wide).logsumexp(-1), answer
    top, likeliest = logits.max(-1, keepdim=True)
    chances = logits.softmax(-1)
    spread = (top.to(wide) - chances.gather(-1, likeliest).to(wide).log())[:, 0]
    weights = asked.weights_M
    factor = weights * (1 + 2 * z_loss * spread)
    torch.mul(chances, factor[:, None].to(chances.dtype), out=logits)
    logits.scatter_add_(-1, at, -weights[:, None].to(logits.dtype))
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
