"""The sum of nats over the answers, and its gradient, without holding all words of all positions at once."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from paribus.train.slope import Asked, slope_

ROWS = 512  # positions whose words are held at a time on a CPU
WORDS = 2**30  # words of positions held at a time elsewhere: wide products are faster


def nats_sum(
    states_MD: Tensor, table_VD: Tensor, bias_V: Tensor | None, targets_M: Tensor, weights_M: Tensor, z_loss: float
) -> tuple[Tensor, Tensor]:
    """Weighted nats of the targets, and the same with the z-loss added: what is reported and what is trained on.

    On CUDA words are scored in bf16, and everything that is summed is summed in float32.
    """
    learning = torch.is_grad_enabled() and states_MD.requires_grad
    return _Chunked.apply(states_MD, table_VD, bias_V, targets_M, weights_M, z_loss, learning)  # pyright: ignore[reportReturnType]


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
        states, table = _narrowed(states), _narrowed(table)
        bias = None if bias is None else bias.to(states.dtype)
        turned = table.T.contiguous() if table.device.type == "cpu" else table.T  # a CPU multiplies faster so
        gradients = _Gradients(states, table, bias) if learning else None
        weights = weights.to(torch.promote_types(states.dtype, torch.float32))
        spread, answer = torch.empty_like(weights), torch.empty_like(weights)
        for rows in _chunks(len(states), len(table), states.device):
            logits = states[rows] @ turned if bias is None else torch.addmm(bias, states[rows], turned)
            spread[rows], answer[rows] = slope_(logits, Asked(targets[rows], weights[rows]), z_loss, learning)
            if gradients is not None:
                gradients.add(rows, logits)
            del logits  # before the next chunk's are made
        ctx.gradients = gradients
        nats = ((spread - answer) * weights).sum()
        ctx.mark_non_differentiable(nats)
        return nats, nats + z_loss * (spread**2 * weights).sum()

    @staticmethod
    def backward(ctx: Any, _: Tensor, grad: Tensor) -> tuple[Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return *ctx.gradients.scaled(grad), None, None, None, None


class _Gradients:
    """What each chunk's slope says about states, table and bias; the last two are summed in full precision."""

    def __init__(self, states: Tensor, table: Tensor, bias: Tensor | None):
        self.states, self.table = states, table
        wide = torch.promote_types(table.dtype, torch.float32)
        self.to_states = torch.empty_like(states)
        self.to_table = torch.zeros_like(table, dtype=wide)
        self.to_bias = None if bias is None else torch.zeros_like(bias, dtype=wide)

    def add(self, rows: slice, slope: Tensor) -> None:
        torch.mm(slope, self.table, out=self.to_states[rows])
        if slope.dtype == self.to_table.dtype:
            self.to_table.addmm_(slope.T, self.states[rows])
        else:
            self.to_table = torch.addmm(self.to_table, slope.T, self.states[rows], out_dtype=self.to_table.dtype)
        if self.to_bias is not None:
            self.to_bias += slope.sum(0, dtype=self.to_bias.dtype)

    def scaled(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        to_states = self.to_states.to(self.to_table.dtype).mul_(grad)
        return to_states, self.to_table.mul_(grad), None if self.to_bias is None else self.to_bias * grad


def _narrowed(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16) if tensor.device.type == "cuda" else tensor


def _chunks(n_rows: int, n_words: int, device: torch.device) -> list[slice]:
    """Chunks of equal size, none of them too large to hold."""
    most = ROWS if device.type == "cpu" else max(WORDS // n_words, 1)
    size = -(-n_rows // -(-n_rows // most))
    return [slice(begin, begin + size) for begin in range(0, n_rows, size)]
