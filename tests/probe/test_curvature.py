"""Curvature along an update: a quadratic of known curvature, and a small network."""

import pytest
import torch
from torch import Tensor
from torch.func import functional_call

from paribus.probe.curvature import (
    Parameters,
    curvature_along,
    curvature_by_differences,
    gradient_norms,
    layer_of,
)

D = 7


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def quadratic(parameters: Parameters) -> Tensor:
    """½ xᵀ diag(1 … 7) x + a linear term, with x in two pieces."""
    point = torch.cat([parameters["first"], parameters["second"]])
    weights = torch.arange(1, D + 1).to(point)
    return 0.5 * (weights * point.square()).sum() + 3 * point.sum()


def in_pieces(point: Tensor) -> dict[str, Tensor]:
    return {"first": point[:2], "second": point[2:]}


@pytest.mark.parametrize("axis", range(D))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_curvature_of_a_quadratic_is_its_eigenvalue(axis, dtype):
    update = in_pieces(0.01 * torch.eye(D, dtype=dtype)[axis])
    point = in_pieces(normal(D, dtype=dtype))
    assert curvature_along(quadratic, point, update) == pytest.approx(axis + 1, rel=1e-5)
    assert curvature_by_differences(quadratic, point, update) == pytest.approx(axis + 1, rel=1e-3)


def test_the_length_of_the_update_does_not_matter():
    point, update = in_pieces(normal(D)), in_pieces(normal(D, seed=2))
    long = {name: 1000 * value for name, value in update.items()}
    assert curvature_along(quadratic, point, update) == pytest.approx(
        curvature_along(quadratic, point, long)
    )
    assert curvature_by_differences(quadratic, point, update) == pytest.approx(
        curvature_by_differences(quadratic, point, long)
    )


def test_any_direction_has_the_weighted_mean_of_the_eigenvalues():
    update = normal(D, seed=2)
    weights = torch.arange(1, D + 1).double()
    expected = ((weights * update.square()).sum() / update.square().sum()).item()
    point = in_pieces(normal(D))
    assert curvature_along(quadratic, point, in_pieces(update)) == pytest.approx(expected)


def test_a_saddle_has_negative_curvature():
    point = {"x": torch.tensor([0.3, -0.2], dtype=torch.float64)}
    update = {"x": torch.tensor([1.0, -1.0], dtype=torch.float64)}

    def saddle(parameters: Parameters) -> Tensor:
        return parameters["x"].prod()

    assert curvature_along(saddle, point, update) == pytest.approx(-1)
    assert curvature_by_differences(saddle, point, update) == pytest.approx(-1)


def test_a_plane_has_no_curvature():
    point, update = {"x": normal(D)}, {"x": normal(D, seed=2)}

    def plane(parameters: Parameters) -> Tensor:
        return 3 * parameters["x"].sum()

    assert curvature_along(plane, point, update) == 0
    assert curvature_by_differences(plane, point, update) == 0


def test_zero_parameters_can_be_moved():
    point = in_pieces(torch.zeros(D, dtype=torch.float64))
    update = in_pieces(torch.eye(D, dtype=torch.float64)[3])
    assert curvature_by_differences(quadratic, point, update) == pytest.approx(4)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 0.05), (torch.float64, 1e-5)])
def test_both_ways_and_the_whole_hessian_agree_on_a_network(dtype, tolerance):
    network = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2)).to(
        dtype
    )
    inputs, targets = normal(11, 3, dtype=dtype), torch.arange(11) % 2
    point = {
        name: 0.5 * normal(*value.shape, seed=seed, dtype=dtype)
        for seed, (name, value) in enumerate(network.named_parameters())
    }
    update = {name: normal(*value.shape, seed=9, dtype=dtype) for name, value in point.items()}

    def loss(parameters: Parameters) -> Tensor:
        logits = functional_call(network, dict(parameters), (inputs,))
        return torch.nn.functional.cross_entropy(logits, targets)

    def of_vector(vector: Tensor) -> Tensor:
        pieces = vector.split([value.numel() for value in point.values()])
        named = zip(point.items(), pieces, strict=True)
        return loss({name: piece.view_as(value) for (name, value), piece in named})

    flat, direction = (
        torch.cat([value.flatten() for value in values.values()]) for values in (point, update)
    )
    hessian = torch.autograd.functional.hessian(of_vector, flat)
    expected = (direction @ hessian @ direction / direction.square().sum()).item()
    assert curvature_along(loss, point, update) == pytest.approx(expected, rel=1e-4)
    assert curvature_by_differences(loss, point, update) == pytest.approx(expected, rel=tolerance)


def test_parameters_are_left_as_they_were():
    point = in_pieces(normal(D).requires_grad_())
    before = point["first"].detach().clone()
    curvature_along(quadratic, point, in_pieces(normal(D, seed=2)))
    curvature_by_differences(quadratic, point, in_pieces(normal(D, seed=2)))
    assert torch.equal(point["first"], before)


def test_a_parameter_belongs_to_its_layer():
    assert layer_of("stack.layers.12.attention.query.weight") == ("stack", 12)
    assert layer_of("encoder.layers.0.feed_forward.up") == ("encoder", 0)
    assert layer_of("embedding.weight") == ("embedding", None)
    assert layer_of("stack.positions.weight") == ("stack", None)


def test_gradient_norms_are_computed_by_hand():
    gradients = {
        "embedding.weight": torch.tensor([[2.0]]),
        "stack.layers.0.attention.query.weight": torch.tensor([3.0]),
        "stack.layers.0.feed_forward.up.weight": torch.tensor([[0.0, 4.0]]),
        "stack.layers.1.attention.query.weight": torch.tensor([1.0, 1.0]),
    }
    assert gradient_norms(gradients) == {
        ("embedding", None): 2,
        ("stack", 0): 5,
        ("stack", 1): pytest.approx(2**0.5),
    }
