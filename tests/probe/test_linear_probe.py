"""Ridge regression to positions: planted ones are found, shuffled and absent ones are not."""

import pytest
import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.probe.linear_probe import (
    RIDGE_PENALTY,
    Standardisation,
    fit_ridge,
    position_task,
    ridge_position_score,
)

B, T, D = 14, 31, 5


def noise(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def planted_states(scale: float = 1.0) -> Tensor:
    """States that hold their position in one direction, among others a thousand times as loud."""
    states = 1000 * noise(B, T, D)
    states[..., 2] = 7 + torch.arange(T) / T
    return scale * states


def test_a_planted_position_is_found():
    score = ridge_position_score(planted_states(), seed=1)
    assert score.r2 > 0.999
    assert score.mean_distance < 0.1
    assert score.accuracy == 1
    assert score.n_tokens == B // 2 * T


def test_states_without_positions_give_the_mean_position():
    score = ridge_position_score(noise(200, T, D), seed=1)
    assert score.mean_distance == pytest.approx((T - 1 / T) / 4, rel=0.02)
    assert score.r2 == pytest.approx(0, abs=0.02)


def test_shuffled_positions_cannot_be_found():
    score = ridge_position_score(planted_states(), seed=1, is_shuffled=True)
    assert score.r2 < 0.1
    assert score.mean_distance > T / 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_scale_of_states_does_not_matter(dtype):
    plain = ridge_position_score(planted_states().to(dtype), seed=1)
    tiny = ridge_position_score(planted_states(2.0**-20).to(dtype), seed=1)
    assert tiny.mean_distance == pytest.approx(plain.mean_distance, rel=1e-6)


def test_a_constant_dimension_does_no_harm():
    states = torch.cat([planted_states(), torch.ones(B, T, 1)], -1)
    assert ridge_position_score(states, seed=1).r2 > 0.999


def test_a_document_either_fits_or_tests():
    states = torch.arange(B).double()[:, None, None].expand(B, T, D)
    task = position_task(states, seed=1)
    fit = set(task.fit_states_BTD[:, 0, 0].tolist())
    test = set(task.test_states_BTD[:, 0, 0].tolist())
    assert fit | test == set(range(B))
    assert not fit & test
    assert len(fit) == len(test)


def test_the_split_follows_from_the_seed():
    states = torch.arange(B).double()[:, None, None].expand(B, T, D)
    first, again, other = (position_task(states, seed=seed).fit_states_BTD for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_shuffled_positions_are_those_of_the_document_in_another_order():
    task = position_task(noise(B, T, D), seed=1, is_shuffled=True)
    rows = torch.cat([task.fit_positions_BT, task.test_positions_BT])
    assert torch.equal(rows.sort(-1).values, torch.arange(T).expand(B, T))
    assert len({tuple(row.tolist()) for row in rows}) == B


def test_one_document_is_refused():
    with pytest.raises(UnsupportedError, match="was given 1 document; give at least 2"):
        position_task(noise(1, T, D), seed=1)


def test_the_ridge_solution_is_the_least_of_its_loss():
    features, targets = noise(37, D), noise(37, seed=2)
    strength = RIDGE_PENALTY * features.square().sum() / D
    weight = fit_ridge(features, targets).requires_grad_()
    loss = (features @ weight - targets).square().sum() + strength * weight.square().sum()
    (gradient,) = torch.autograd.grad(loss, weight)
    assert gradient.abs().max().item() < 1e-10


def test_a_large_penalty_shrinks_by_its_size():
    """With orthonormal features every eigenvalue is 1, so a penalty p divides by 1 + p."""
    features = torch.linalg.qr(noise(37, D)).Q
    targets = noise(37, seed=2)
    free = fit_ridge(features, targets, penalty=0)
    torch.testing.assert_close(fit_ridge(features, targets, penalty=3), free / 4)


def test_standardised_states_have_mean_0_and_sd_1():
    states = 3 + 7 * noise(B, T, D)
    found = Standardisation.fit(states)(states).flatten(0, 1)
    torch.testing.assert_close(found.mean(0), torch.zeros(D, dtype=torch.float64))
    torch.testing.assert_close(found.std(0, correction=0), torch.ones(D, dtype=torch.float64))
