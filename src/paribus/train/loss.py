"""The sum of nats over the answers, and its gradient, without holding all logits of all
positions at once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from paribus.train.cross_entropy import Targets, cross_entropy_

CPU_CHUNK_ROWS = 512  # positions whose logits are held at a time on a CPU
CHUNK_LOGITS = 2**30  # logits held at a time elsewhere: wide products are faster


def nats_sum(
    states_MD: Tensor,
    table_VD: Tensor,
    bias_V: Tensor | None,
    targets_M: Tensor,
    weights_M: Tensor,
    z_loss: float,
) -> tuple[Tensor, Tensor]:
    """Weighted nats of the targets, and the same with the z-loss added: what is reported and
    what is trained on.

    On CUDA logits are computed in bf16, and everything that is summed is summed in float32.
    """
    learning = torch.is_grad_enabled() and states_MD.requires_grad
    loss = _LossSpec(Targets(targets_M, weights_M), z_loss, learning)
    return _ChunkedCrossEntropy.apply(  # pyright: ignore[reportReturnType]
        states_MD, table_VD, bias_V, loss
    )


class _LossSpec(NamedTuple):
    """What the loss is of, beside its inputs that have a gradient."""

    targets: Targets
    z_loss: float
    with_gradient: bool


class _ChunkedCrossEntropy(torch.autograd.Function):
    """Each chunk's gradient is taken in the forward pass, while its logits are at hand: no time
    lost, less memory.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, table: Tensor, bias: Tensor | None, loss: _LossSpec
    ) -> tuple[Tensor, Tensor]:
        (targets, weights), z_loss, with_gradient = loss
        states, table = to_bf16_on_cuda(states), to_bf16_on_cuda(table)
        bias = None if bias is None else bias.to(states.dtype)
        # a CPU multiplies faster so
        table_DV = table.T.contiguous() if table.device.type == "cpu" else table.T
        gradients = HeadGradients(states, table, bias) if with_gradient else None
        weights = weights.to(torch.promote_types(states.dtype, torch.float32))
        logsumexp, target_logit = torch.empty_like(weights), torch.empty_like(weights)
        for rows in _chunks(len(states), len(table), states.device):
            if bias is None:
                logits = states[rows] @ table_DV
            else:
                logits = torch.addmm(bias, states[rows], table_DV)
            logsumexp[rows], target_logit[rows] = cross_entropy_(
                logits, Targets(targets[rows], weights[rows]), z_loss, with_gradient
            )
            if gradients is not None:
                gradients.add(rows, logits)
            del logits  # before the next chunk's are made
        ctx.gradients = gradients
        nats = ((logsumexp - target_logit) * weights).sum()
        ctx.mark_non_differentiable(nats)
        return nats, nats + z_loss * (logsumexp**2 * weights).sum()

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, _: Tensor, grad: Tensor
    ) -> tuple[Tensor | None, ...]:
        return *ctx.gradients.scale_by(grad), None


class HeadGradients:
    """What each chunk's slope says about states, table and bias; the last two are summed in
    full precision.
    """

    def __init__(self, states: Tensor, table: Tensor, bias: Tensor | None):
        self.states, self.table = states, table
        wide = torch.promote_types(table.dtype, torch.float32)
        self.states_grad = torch.empty_like(states)
        self.table_grad = torch.zeros_like(table, dtype=wide)
        if bias is None:
            self.bias_grad = None
        else:
            self.bias_grad = torch.zeros_like(bias, dtype=wide)

    def add(self, rows: slice, logits_grad: Tensor) -> None:
        torch.mm(logits_grad, self.table, out=self.states_grad[rows])
        if logits_grad.dtype == self.table_grad.dtype:
            self.table_grad.addmm_(logits_grad.T, self.states[rows])
        else:
            self.table_grad = torch.addmm(
                self.table_grad, logits_grad.T, self.states[rows], out_dtype=self.table_grad.dtype
            )
        if self.bias_grad is not None:
            self.bias_grad += logits_grad.sum(0, dtype=self.bias_grad.dtype)

    def scale_by(self, grad: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        to_states = self.states_grad.to(self.table_grad.dtype).mul_(grad)
        return (
            to_states,
            self.table_grad.mul_(grad),
            None if self.bias_grad is None else self.bias_grad * grad,
        )


def to_bf16_on_cuda(tensor: Tensor) -> Tensor:
    if tensor.device.type == "cuda":
        return tensor.to(torch.bfloat16)
    return tensor


def _chunks(n_rows: int, n_vocab: int, device: torch.device) -> list[slice]:
    """Chunks of equal size, none of them too large to hold."""
    most = max_chunk_rows(n_vocab, device)
    size = -(-n_rows // -(-n_rows // most))
    return [slice(begin, begin + size) for begin in range(0, n_rows, size)]


def max_chunk_rows(n_vocab: int, device: torch.device) -> int:
    """Positions whose logits are held at a time."""
    if device.type == "cpu":
        return CPU_CHUNK_ROWS
    return max(CHUNK_LOGITS // n_vocab, 1)
