"""Curvature along an update, and gradients by layer.

A loss is a function of named parameters, as `torch.func.functional_call` takes them. Curvature
needs two derivatives, so attention must run on the dense kernel, in float32 or float64.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Parameters = Mapping[str, Tensor]
Loss = Callable[[Parameters], Tensor]


def curvature_along(loss: Loss, parameters: Parameters, update: Parameters) -> float:
    """uᵀHu / ‖u‖², with Hu by differentiating twice: exact within rounding."""
    points = _leaves(parameters)
    gradients = torch.autograd.grad(
        loss(points), list(points.values()), create_graph=True, materialize_grads=True
    )
    slope = _dot(dict(zip(points, gradients, strict=True)), update)
    if not slope.requires_grad:
        return 0.0  # a loss without a second derivative
    products = torch.autograd.grad(slope, list(points.values()), materialize_grads=True)
    curvature = _dot(dict(zip(points, products, strict=True)), update)
    return (curvature / _dot(update, update)).item()


def curvature_by_differences(
    loss: Loss, parameters: Parameters, update: Parameters, step: float | None = None
) -> float:
    """uᵀHu / ‖u‖² by central differences of the gradient: the check of `curvature_along`.

    `step` is how far the parameters are moved along u, over their own norm; by default the cube
    root of their precision, where rounding and truncation are balanced.
    """
    length = _dot(update, update).sqrt()
    if step is None:
        step = _cube_root_of_precision(parameters)
    distance = step * (_dot(parameters, parameters).sqrt().item() or 1.0)
    slopes = []
    for sign in (1, -1):
        shift = sign * distance / length.item()
        moved = {name: value + shift * update[name] for name, value in parameters.items()}
        slopes.append(_dot(_gradient(loss, moved), update) / length)
    return ((slopes[0] - slopes[1]) / (2 * distance)).item()


def gradient_norms(gradients: Parameters) -> dict[tuple[str, int | None], float]:
    """‖∂loss/∂θ‖ by (stack, layer), from gradients by the name of their parameter.

    `stack.layers.3.attention.query.weight` belongs to ("stack", 3); `embedding.weight`, which is in
    no layer, to ("embedding", None).
    """
    squares: dict[tuple[str, int | None], float] = defaultdict(float)
    for name, gradient in gradients.items():
        squares[layer_of(name)] += gradient.double().square().sum().item()
    return {place: square**0.5 for place, square in squares.items()}


def layer_of(name: str) -> tuple[str, int | None]:
    """The stack and the layer that a parameter belongs to; None for the layer if to none."""
    stack, _, rest = name.partition(".")
    kind, _, rest = rest.partition(".")
    if kind == "layers":
        return stack, int(rest.partition(".")[0])
    return stack, None


def _gradient(loss: Loss, parameters: Parameters) -> dict[str, Tensor]:
    points = _leaves(parameters)
    gradients = torch.autograd.grad(loss(points), list(points.values()), materialize_grads=True)
    return dict(zip(points, gradients, strict=True))


def _cube_root_of_precision(parameters: Parameters) -> float:
    precision: float = max(torch.finfo(value.dtype).eps for value in parameters.values())
    return precision ** (1 / 3)


def _leaves(parameters: Parameters) -> dict[str, Tensor]:
    return {name: value.detach().requires_grad_() for name, value in parameters.items()}


def _dot(left: Parameters, right: Parameters) -> Tensor:
    """Σ of the products of two sets of tensors with the same names."""
    assert left.keys() == right.keys()
    return torch.stack(
        [torch.dot(left[name].flatten(), right[name].flatten()) for name in left]
    ).sum()
