"""The sum of nats over the answers, and its gradient, without holding all words of all positions at once."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

ROWS = 512  # positions whose words are held at a time


def nats_sum(
    states_MD: Tensor, table_VD: Tensor, bias_V: Tensor | None, targets_M: Tensor, weights_M: Tensor, z_loss: float
) -> tuple[Tensor, Tensor]:
    """Weighted nats of the targets, and the same with the z-loss added: what is reported and what is trained on."""
    if states_MD.device.type != "cpu":
        return _plain(states_MD, table_VD, bias_V, targets_M, weights_M, z_loss)
    learning = torch.is_grad_enabled() and states_MD.requires_grad
    return _Chunked.apply(states_MD, table_VD, bias_V, targets_M, weights_M, z_loss, learning)  # pyright: ignore[reportReturnType]


def _plain(
    states: Tensor, table: Tensor, bias: Tensor | None, targets: Tensor, weights: Tensor, z_loss: float
) -> tuple[Tensor, Tensor]:
    logits = F.linear(states, table, bias).float()
    spread = logits.logsumexp(-1)
    nats = (spread - logits.gather(-1, targets[:, None])[:, 0]) * weights
    return nats.sum(), (nats + z_loss * spread**2 * weights).sum()


class _Chunked(torch.autograd.Function):
    """Each chunk's gradient is taken in the forward pass, while its logits are at hand: no time lost, less memory."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        table: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        weights: Tensor,
        z_loss: float,
        learning: bool,
    ) -> tuple[Tensor, Tensor]:
        to_states, to_table, weights = torch.empty_like(states), torch.zeros_like(table), weights.to(states.dtype)
        to_bias = None if bias is None else torch.zeros_like(bias)
        nats, penalty = states.new_zeros(()), states.new_zeros(())
        for begin in range(0, len(states), ROWS):
            rows = slice(begin, begin + ROWS)
            logits, asked, weight = F.linear(states[rows], table, bias), targets[rows, None], weights[rows]
            spread = logits.logsumexp(-1)
            nats += ((spread - logits.gather(-1, asked)[:, 0]) * weight).sum()
            penalty += z_loss * (spread**2 * weight).sum()
            if learning:
                # d/dlogits: probabilities (1 + 2 z · log-sum-exp) minus the answer, times the weight.
                slope = torch.exp_(logits.sub_(spread[:, None])).mul_((weight * (1 + 2 * z_loss * spread))[:, None])
                slope.scatter_add_(-1, asked, -weight[:, None])
                torch.mm(slope, table, out=to_states[rows])
                to_table.addmm_(slope.T, states[rows])
                if to_bias is not None:
                    to_bias += slope.sum(0)
        ctx.save_for_backward(to_states, to_table, *(() if to_bias is None else (to_bias,)))
        ctx.mark_non_differentiable(nats)
        return nats, nats + penalty

    @staticmethod
    def backward(ctx: Any, _: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        to_states, to_table, *rest = ctx.saved_tensors
        return to_states * grad, to_table * grad, rest[0] * grad if rest else None, None, None, None, None
