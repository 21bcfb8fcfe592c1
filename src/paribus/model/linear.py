"""A linear map whose three products, one forward and two back, each take the form that is
fastest on a CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from paribus.model.kept_signature import keep_signature

_MIN_ROWS = 64  # rows from which on turning the weight costs nothing beside the product


class JoinedWeights:
    """Weights of layers that read the same rows, joined once and laid as they are multiplied.

    They are computed when they are first asked for. They are those of a model that does not train:
    a cache has them, which is worth nothing after a step, either.
    """

    def __init__(self) -> None:
        self._products: dict[tuple[Any, ...], tuple[Tensor, Tensor | None]] = {}
        self._tables: dict[Tensor, Tensor] = {}

    def product(self, rows: Tensor, layers: Sequence[nn.Linear]) -> Tensor:
        """The outputs of layers from one product."""
        return _product(rows, *self.joined(layers, _is_turned(rows)))

    def joined(
        self, layers: Sequence[nn.Linear], is_turned: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """The weights of layers, [O, I], as they are or turned in memory, and their biases."""
        key = (is_turned, *layers)
        if key not in self._products:
            weight_OI, bias = _joined(layers)
            self._products[key] = (_turned(weight_OI) if is_turned else weight_OI, bias)
        return self._products[key]

    def refresh(self) -> None:
        """Weights that were changed in place are joined anew, where they lie. None is turned."""
        assert not self._tables
        for (is_turned, *layers), (weight_OI, bias_O) in self._products.items():
            assert not is_turned
            if len(layers) == 1:
                continue
            new_weight_OI, new_bias_O = _joined(layers)
            weight_OI.copy_(new_weight_OI)
            if bias_O is not None and new_bias_O is not None:
                bias_O.copy_(new_bias_O)

    def table_product(self, rows: Tensor, table_VD: Tensor, bias: Tensor | None) -> Tensor:
        """Rows times every row of a table."""
        bias = None if bias is None else bias.detach()
        if not _is_turned(rows):
            return _product(rows, table_VD.detach(), bias)
        if table_VD not in self._tables:
            self._tables[table_VD] = _turned(table_VD.detach())
        return _product(rows, self._tables[table_VD], bias)


def _product(rows: Tensor, weight_OI: Tensor, bias_O: Tensor | None) -> Tensor:
    """On CUDA in two kernels: before a product with a bias torch asks for the fastest way, each
    time, and that takes the host ten times as long as to begin both.
    """
    if rows.device.type != "cuda" or bias_O is None:
        return F.linear(rows, weight_OI, bias_O)
    return F.linear(rows, weight_OI).add_(bias_O)


def _is_turned(rows: Tensor) -> bool:
    """Is a weight that these rows are multiplied with faster if it is turned in memory? On a CPU
    it is, but for a single row, which then takes up to twice as long.
    """
    return rows.device.type == "cpu" and bool(rows.numel() > rows.shape[-1])


def _turned(weight_OI: Tensor) -> Tensor:
    """A weight that lies in memory channel by channel of its input."""
    return weight_OI.T.contiguous().T


def _joined(layers: Sequence[nn.Linear]) -> tuple[Tensor, Tensor | None]:
    biases = [layer.bias for layer in layers if layer.bias is not None]
    weight_OI = _concatenate([layer.weight for layer in layers]).detach()
    return weight_OI, _concatenate(biases).detach() if biases else None


class Linear(nn.Linear):
    """torch's own, but for how it is computed."""

    def reset_parameters(self) -> None:
        """Nothing: a model is built as shapes alone, and its values are drawn afterwards."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return fused_linear(input, [self])


def fused_linear(rows: Tensor, layers: Sequence[Linear]) -> Tensor:
    """The outputs of layers that read the same rows, from one product: a wide one is faster
    than several narrow ones.

    On a CPU, for many rows, up to a quarter faster forward than F.linear. Either all layers have a
    bias, or none.
    """
    weights = [layer.weight for layer in layers]
    biases = [layer.bias for layer in layers if layer.bias is not None]
    n_rows = rows.numel() // rows.shape[-1]
    if rows.device.type != "cpu" or n_rows < _MIN_ROWS or torch.compiler.is_compiling():
        return F.linear(rows, _concatenate(weights), _concatenate(biases) if biases else None)
    rows_MI = rows.reshape(n_rows, -1)
    if torch.is_grad_enabled():
        out = _TransposedProduct.apply(rows_MI, len(weights), *weights, *biases)
    else:
        out = _TransposedProduct.forward(rows_MI, len(weights), *weights, *biases)
    assert isinstance(out, Tensor)
    return out.view(*rows.shape[:-1], -1)


def _concatenate(tensors: Sequence[Tensor]) -> Tensor:
    if len(tensors) == 1:
        return tensors[0]
    return torch.cat(list(tensors))


class _TransposedProduct(torch.autograd.Function):
    """BLAS is fastest with both factors as they lie in memory, so the weight is turned first.

    Weights are kept apart, as the model holds them anyway, and joined again for the way back.
    """

    generate_vmap_rule = True

    @staticmethod
    @keep_signature
    def forward(rows_MI: Tensor, n_weights: int, *weights_and_biases: Tensor) -> Tensor:
        weights, biases = weights_and_biases[:n_weights], weights_and_biases[n_weights:]
        weight_IO = _concatenate(weights).T.contiguous()
        if biases:
            return torch.addmm(_concatenate(biases), rows_MI, weight_IO)
        return rows_MI @ weight_IO

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        rows, ctx.n_weights, *tensors = inputs
        ctx.biased = len(tensors) > ctx.n_weights
        ctx.save_for_backward(rows, *tensors[: ctx.n_weights])

    @staticmethod
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, grad_MO: Tensor
    ) -> tuple[Tensor | None, ...]:
        rows, *weights = ctx.saved_tensors
        widths = [len(weight) for weight in weights]
        if ctx.needs_input_grad[0]:
            to_rows = grad_MO @ _concatenate(weights)
        else:
            to_rows = None
        to_weights = (grad_MO.T @ rows).split(widths)
        if not ctx.biased:
            return to_rows, None, *to_weights
        # A product with ones: several times faster than summing along the slow dimension.
        to_bias = grad_MO.T @ grad_MO.new_ones(len(grad_MO))
        return to_rows, None, *to_weights, *to_bias.split(widths)
