"""References for linear regression in context: exact where they must be, and as good as theory."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from paribus.probe.in_context import (
    RATES,
    descent_prediction,
    fit_rate,
    largest_stable_rate,
    mean_prediction,
    one_step_rate,
    predictions_by_examples,
    ridge_prediction,
)

D = 4
MANY = 20_000


def tasks(
    n_tasks: int, n_examples: int, noise: float = 0.0, seed: int = 1
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs, outputs, the query and its answer."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(n_tasks, n_examples + 1, D, generator=generator, dtype=torch.float64)
    weight = torch.randn(n_tasks, D, 1, generator=generator, dtype=torch.float64)
    outputs = (inputs @ weight)[..., 0]
    drawn = torch.randn(n_tasks, n_examples, generator=generator, dtype=torch.float64)
    return inputs[:, :-1], outputs[:, :-1] + noise * drawn, inputs[:, -1], outputs[:, -1]


def squared_error(predicted: Tensor, answers: Tensor) -> float:
    return (predicted - answers).square().mean().item()


REFERENCES = {
    "ridge": partial(ridge_prediction, ridge=0.3),
    "least squares": partial(ridge_prediction, ridge=0),
    "descent": partial(descent_prediction, n_steps=3, rate=0.5),
    "mean": mean_prediction,
}


@pytest.mark.parametrize("predict", REFERENCES.values(), ids=REFERENCES.keys())
def test_without_examples_the_prediction_is_0(predict):
    inputs, outputs, query, _ = tasks(5, 0)
    assert predict(inputs, outputs, query).tolist() == [0] * 5


@pytest.mark.parametrize("predict", REFERENCES.values(), ids=REFERENCES.keys())
def test_tasks_do_not_see_each_other(predict):
    inputs, outputs, query, _ = tasks(5, 3)
    together = predict(inputs, outputs, query)
    alone = [predict(inputs[i : i + 1], outputs[i : i + 1], query[i : i + 1]) for i in range(5)]
    torch.testing.assert_close(together, torch.cat(alone))


@pytest.mark.parametrize("n_examples", [D, D + 1, 16])
def test_enough_examples_without_noise_give_the_answer(n_examples):
    inputs, outputs, query, answers = tasks(50, n_examples)
    found = ridge_prediction(inputs, outputs, query, ridge=0)
    torch.testing.assert_close(found, answers, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n_examples", range(D + 1))
def test_each_example_takes_one_dimension_from_the_error(n_examples):
    """Without noise the expected squared error of the shortest w that fits is d - k."""
    inputs, outputs, query, answers = tasks(MANY, n_examples)
    found = squared_error(ridge_prediction(inputs, outputs, query, ridge=0), answers)
    assert found == pytest.approx(D - n_examples, rel=0.05, abs=1e-9)


def test_a_vanishing_ridge_is_least_squares():
    inputs, outputs, query, _ = tasks(7, 2)
    torch.testing.assert_close(
        ridge_prediction(inputs, outputs, query, ridge=1e-10),
        ridge_prediction(inputs, outputs, query, ridge=0),
        rtol=1e-5,
        atol=1e-5,
    )


def test_the_variance_of_the_noise_is_the_best_ridge():
    inputs, outputs, query, answers = tasks(MANY, 6, noise=0.7)
    errors = {
        factor: squared_error(ridge_prediction(inputs, outputs, query, factor * 0.49), answers)
        for factor in (0, 0.25, 1, 4)
    }
    assert min(errors, key=errors.__getitem__) == 1


def test_one_step_is_computed_by_hand():
    inputs, outputs = torch.tensor([[[1.0, 0.0], [0.0, 2.0]]]), torch.tensor([[3.0, 1.0]])
    query = torch.tensor([[1.0, 1.0]])
    one = descent_prediction(inputs, outputs, query, n_steps=1, rate=0.5)
    assert one.tolist() == pytest.approx([0.5 * (3 / 2 + 2 / 2)])


def test_descent_is_that_of_autograd():
    inputs, outputs, query, _ = tasks(1, 6)
    weight = torch.zeros(D, dtype=torch.float64)
    for _ in range(3):
        weight.requires_grad_()
        loss = 0.5 * (inputs[0] @ weight - outputs[0]).square().mean()
        (gradient,) = torch.autograd.grad(loss, weight)
        weight = (weight - 0.3 * gradient).detach()
    found = descent_prediction(inputs, outputs, query, n_steps=3, rate=0.3)
    assert found.item() == pytest.approx((query[0] @ weight).item())


def test_many_steps_of_descent_are_least_squares():
    inputs, outputs, query, _ = tasks(7, 16)
    torch.testing.assert_close(
        descent_prediction(inputs, outputs, query, n_steps=2000, rate=0.3),
        ridge_prediction(inputs, outputs, query, ridge=0),
    )


@pytest.mark.parametrize("n_examples", [1, 5, 16])
def test_the_best_rate_of_one_step_is_that_of_theory(n_examples):
    found = fit_rate(*tasks(MANY, n_examples), n_steps=1)
    theory = one_step_rate(n_examples, D)
    assert 2**-0.375 < found / theory < 2**0.375


def test_the_rate_of_theory_is_a_ratio_of_moments():
    """E x² / E x⁴ = 1/3 for one example in one dimension; otherwise as drawn."""
    assert one_step_rate(1, 1) == pytest.approx(1 / 3)
    inputs = tasks(MANY, 6)[0]
    moments = inputs.transpose(-1, -2) @ inputs / 6
    traces = [
        power.diagonal(dim1=-2, dim2=-1).sum(-1).mean().item()
        for power in (moments, moments @ moments)
    ]
    assert one_step_rate(6, D) == pytest.approx(traces[0] / traces[1], rel=0.02)


def test_the_rate_of_theory_has_the_least_error():
    inputs, outputs, query, answers = tasks(MANY, 6)
    best = one_step_rate(6, D)
    errors = {
        factor: squared_error(descent_prediction(inputs, outputs, query, 1, factor * best), answers)
        for factor in (0.7, 1, 1.4)
    }
    assert min(errors, key=errors.__getitem__) == 1
    assert errors[1] == pytest.approx(D * (D + 1) / (6 + D + 1), rel=0.05)


def adversarial_tasks() -> tuple[Tensor, Tensor]:
    """Examples that descent diverges on at any usual rate: large, nearly parallel, equal, one among
    zeros, and none.
    """
    generator = torch.Generator().manual_seed(7)
    drawn = torch.randn(5, 6, D, generator=generator, dtype=torch.float64)
    parallel = drawn[1, :1] + 1e-4 * drawn[1]
    equal = drawn[2, :1].expand(6, D)
    lonely = torch.zeros(6, D, dtype=torch.float64)
    lonely[3] = 30 * drawn[3, 3]
    nothing = torch.zeros(6, D, dtype=torch.float64)
    inputs = torch.stack([50 * drawn[0], 20 * parallel, 3.2 * equal, lonely, nothing])
    weight = torch.randn(5, D, 1, generator=generator, dtype=torch.float64)
    return inputs, (inputs @ weight)[..., 0]


@pytest.mark.parametrize("rate", [RATES[0], 0.6, RATES[-1]])
def test_the_error_of_descent_is_finite_and_does_not_grow_with_steps(rate):
    """The squared error over all queries of length 1 is that of w, here over the unit vectors."""
    inputs, outputs = adversarial_tasks()
    exact = torch.linalg.pinv(inputs) @ outputs[..., None]
    errors = []
    for n_steps in (0, 2, 3, 4, 16, 400):
        found = []
        for unit in torch.eye(D, dtype=torch.float64):
            query = unit.expand(len(inputs), D)
            found.append(descent_prediction(inputs, outputs, query, n_steps, rate))
        errors.append((torch.stack(found, -1) - exact[..., 0]).square().sum(-1))
    assert torch.stack(errors).isfinite().all()
    for before, after in pairwise(errors):
        assert (after <= before * (1 + 1e-9)).all()


def test_the_largest_stable_rate_is_2_over_the_largest_eigenvalue():
    inputs = torch.tensor([[[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]]])
    assert largest_stable_rate(inputs).tolist() == [2 / (4 / 2), float("inf")]
    assert largest_stable_rate(inputs[:, :0]).tolist() == [float("inf")] * 2


def test_one_step_has_its_rate_on_every_task():
    """It cannot diverge, and its rate is that of theory."""
    inputs, outputs = adversarial_tasks()
    query = torch.ones(len(inputs), D, dtype=torch.float64)
    one = descent_prediction(inputs, outputs, query, n_steps=1, rate=0.5)
    step = 0.5 * (inputs.mT @ outputs[..., None])[..., 0] / 6
    torch.testing.assert_close(one, step.sum(-1))


def test_a_rate_that_is_too_large_for_many_steps_is_not_chosen():
    assert RATES[0] <= fit_rate(*tasks(500, 16), n_steps=400) < 1


def test_more_steps_at_their_rates_are_better():
    fitted, tested = tasks(5000, 8), tasks(5000, 8, seed=2)
    errors = []
    for n_steps in (1, 2, 4, 8):
        rate = fit_rate(*fitted, n_steps=n_steps)
        errors.append(squared_error(descent_prediction(*tested[:3], n_steps, rate), tested[3]))
    assert errors == sorted(errors, reverse=True)


def test_the_mean_is_worse_than_nothing():
    """Its expected squared error is d (1 + 1/k): the mean of the outputs tells nothing."""
    inputs, outputs, query, answers = tasks(MANY, 5)
    found = squared_error(mean_prediction(inputs, outputs, query), answers)
    assert found == pytest.approx(D * (1 + 1 / 5), rel=0.05)


def test_predictions_are_given_for_every_number_of_examples():
    inputs, outputs, query, answers = tasks(11, 6)
    found = predictions_by_examples(partial(ridge_prediction, ridge=0), inputs, outputs, query)
    assert found.shape == (11, 7)
    assert found[:, 0].tolist() == [0] * 11
    torch.testing.assert_close(
        found[:, 2], ridge_prediction(inputs[:, :2], outputs[:, :2], query, 0)
    )
    for n_seen in (D, 5, 6):
        torch.testing.assert_close(found[:, n_seen], answers)


def test_float32_is_kept():
    inputs, outputs, query, _ = (value.float() for value in tasks(3, 5))
    for predict in REFERENCES.values():
        assert predict(inputs, outputs, query).dtype == torch.float32
