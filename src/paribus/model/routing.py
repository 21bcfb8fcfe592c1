"""Tokens to their experts and back: on CUDA every gradient is a gather, so that none depends on
the order of atomics.

Elsewhere torch's own operations, which are as exact and as fast there. The answers are the same.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def permute_tokens(
    tokens_MD: Tensor, permutation: Tensor, inverse: Tensor, n_active: int
) -> Tensor:
    """Each token once for each of its experts, sorted by expert, [M · K, D]."""
    if tokens_MD.device.type != "cuda":
        return tokens_MD.index_select(0, permutation // n_active)
    return _PermuteTokens.apply(  # pyright: ignore[reportReturnType]
        tokens_MD, permutation, inverse, n_active
    )


def unpermute_outputs(outputs: Tensor, permutation: Tensor, inverse: Tensor) -> Tensor:
    """The answers of the experts, each token's side by side again."""
    if outputs.device.type != "cuda":
        return outputs.index_select(0, inverse)
    return _UnpermuteOutputs.apply(  # pyright: ignore[reportReturnType]
        outputs, permutation, inverse
    )


def chosen_scores(scores_MN: Tensor, experts_MK: Tensor) -> Tensor:
    """The scores of the experts that were chosen, [M, K]."""
    if scores_MN.device.type != "cuda":
        return scores_MN.gather(-1, experts_MK)
    return torch.where(_one_hot(experts_MK, scores_MN.shape[-1]), scores_MN[:, None], 0.0).sum(-1)


def multi_hot(like_MN: Tensor, experts_MK: Tensor) -> Tensor:
    """1 where something was chosen, 0 elsewhere, [M, N]."""
    if like_MN.device.type != "cuda":
        return torch.zeros_like(like_MN).scatter(-1, experts_MK, 1.0)
    return _one_hot(experts_MK, like_MN.shape[-1]).any(-2).to(like_MN.dtype)


def _one_hot(experts_MK: Tensor, n_choices: int) -> Tensor:
    return experts_MK[..., None] == torch.arange(n_choices, device=experts_MK.device)


class _PermuteTokens(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, tokens: Tensor, permutation: Tensor, inverse: Tensor, n_active: int
    ) -> Tensor:
        ctx.save_for_backward(inverse)
        ctx.n_active = n_active
        return tokens.index_select(0, permutation // n_active)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        (places,) = ctx.saved_tensors
        return (
            grad.index_select(0, places).unflatten(0, (-1, ctx.n_active)).sum(1),
            None,
            None,
            None,
        )


class _UnpermuteOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor, permutation: Tensor, inverse: Tensor) -> Tensor:
        ctx.save_for_backward(permutation)
        return outputs.index_select(0, inverse)

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        (order,) = ctx.saved_tensors
        return grad.index_select(0, order), None, None
