"""Layer norm and RMS norm."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model.kept_signature import keep_signature
from paribus.spec import LayerNorm, RMSNorm


class Norm(nn.Module):
    """Rows brought to unit scale, times a gain; layer norm also takes the mean off and may add
    a bias. Without a gain there is no bias either.
    """

    def __init__(self, width: int, spec: LayerNorm | RMSNorm, has_gain: bool = True):
        super().__init__()
        self.spec, self.width = spec, width
        self.weight: nn.Parameter | None = None
        self.bias: nn.Parameter | None = None
        if has_gain:
            self.weight = nn.Parameter(torch.empty(width))
        if has_gain and isinstance(spec, LayerNorm) and spec.bias:
            self.bias = nn.Parameter(torch.empty(width))

    def forward(self, rows: Tensor) -> Tensor:
        """In the precision of its rows; under autocast it is computed in float32 all the same."""
        shape = (self.width,)
        if isinstance(self.spec, LayerNorm):
            normed = F.layer_norm(rows, shape, self.weight, self.bias, self.spec.eps)
        elif self.weight is None:
            normed = F.rms_norm(rows, shape, None, self.spec.eps)
        else:
            normed = rms_norm(rows, self.weight, self.spec.eps)
        return normed.to(rows.dtype)


def rms_norm(rows: Tensor, gain: Tensor, eps: float) -> Tensor:
    """F.rms_norm; on a CPU, where torch has no kernel of its own for it, with half of what it
    keeps.
    """
    if rows.device.type != "cpu" or rows.dtype != gain.dtype or torch.compiler.is_compiling():
        return F.rms_norm(rows, gain.shape, gain, eps)
    if not torch.is_grad_enabled():
        return _RMSNorm.forward(rows, gain, eps)[0]
    return _RMSNorm.apply(rows, gain, eps)[0]  # pyright: ignore[reportOptionalSubscript]


class _RMSNorm(torch.autograd.Function):
    """rows · scale · gain; only the rows and one scale a row are kept."""

    generate_vmap_rule = True

    @staticmethod
    @keep_signature
    def forward(rows: Tensor, gain: Tensor, eps: float) -> tuple[Tensor, Tensor]:
        scale = rows.square().mean(-1, keepdim=True).add_(eps).rsqrt_()
        return (rows * scale).mul_(gain), scale

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        rows, gain, ctx.eps = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(rows, gain, output[1])

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad: Tensor, _: Tensor
    ) -> tuple[Tensor | None, ...]:
        rows, gain, scale = ctx.saved_tensors
        if torch.is_grad_enabled():  # for a second derivative, to which the scale is no constant
            scale = (rows.square().mean(-1, keepdim=True) + ctx.eps).rsqrt()
            unit = rows * scale
            shared = (grad * unit @ gain)[..., None] / rows.shape[-1]
            to_gain = (grad * unit).flatten(0, -2).sum(0)
            return (grad * gain - unit * shared) * scale, to_gain, None
        unit = rows * scale
        along = grad * unit
        flat = along.flatten(0, -2)
        # several times faster than summing along the slow dimension
        to_gain = flat.T @ flat.new_ones(len(flat))
        shared = (along @ gain)[..., None] / rows.shape[-1]
        return (grad * gain).sub_(unit.mul_(shared)).mul_(scale), to_gain, None
