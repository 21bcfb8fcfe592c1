"""Distance from equal rows: on states where it is known, with and without padding."""

from math import sqrt

import pytest
import torch
from torch import Tensor

from paribus.probe.collapse import (
    composite_norm,
    composite_ratio,
    frobenius_ratio,
    mean_cosine,
    residual,
)

T, D = 11, 7


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_mean_row_is_the_nearest_matrix_with_equal_rows():
    states = normal(T, D)
    row = torch.zeros(D, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([row], max_iter=100, tolerance_grad=1e-12)

    def squared_distance() -> Tensor:
        optimizer.zero_grad()
        distance = (states - row).square().sum()
        distance.backward()
        return distance

    optimizer.step(squared_distance)  # pyright: ignore[reportArgumentType]
    torch.testing.assert_close(residual(states), states - row.detach())


def test_equal_tokens_have_collapsed():
    states = normal(1, D).expand(T, D)
    assert frobenius_ratio(states).item() == pytest.approx(0, abs=1e-12)
    assert composite_ratio(states).item() == pytest.approx(0, abs=1e-12)
    assert mean_cosine(states).item() == pytest.approx(1)


def test_tokens_that_cancel_have_not_collapsed_at_all():
    half = normal(5, D)
    states = torch.cat([half, -half])
    torch.testing.assert_close(residual(states), states)
    assert frobenius_ratio(states).item() == pytest.approx(1)
    assert composite_ratio(states).item() == pytest.approx(1)


def test_ratios_are_computed_by_hand():
    states = torch.tensor([[3.0, 0.0], [1.0, 2.0]])
    torch.testing.assert_close(residual(states), torch.tensor([[1.0, -1.0], [-1.0, 1.0]]))
    assert frobenius_ratio(states).item() == pytest.approx(2 / sqrt(14))
    assert composite_norm(states).item() == pytest.approx(sqrt(4 * 3))
    assert composite_ratio(states).item() == pytest.approx(2 / sqrt(12))
    assert mean_cosine(states).item() == pytest.approx(1 / sqrt(5))


def test_the_composite_norm_is_that_of_torch():
    states = normal(3, T, D)
    one, infinity = (
        torch.linalg.matrix_norm(states, 1),
        torch.linalg.matrix_norm(states, float("inf")),
    )
    torch.testing.assert_close(composite_norm(states), (one * infinity).sqrt())


def test_the_mean_cosine_is_that_of_all_pairs():
    states = normal(T, D)
    cosines = torch.nn.functional.cosine_similarity(states[:, None], states[None], dim=-1)
    expected = (cosines.sum() - cosines.trace()) / (T * (T - 1))
    assert mean_cosine(states).item() == pytest.approx(expected.item())


def test_orthogonal_tokens_have_no_cosine():
    assert mean_cosine(torch.eye(D)).item() == pytest.approx(0, abs=1e-7)


def test_attention_alone_collapses_and_a_skip_does_not():
    """Dong 2021 in small: the mean of all tokens, layer after layer."""
    averaging = torch.full((T, T), 0.5 / T, dtype=torch.float64) + 0.5 * torch.eye(T)
    states = normal(T, D)
    alone, with_skip = [states], [states]
    for _ in range(4):
        alone.append(averaging @ alone[-1])
        with_skip.append(with_skip[-1] + 0.1 * averaging @ with_skip[-1])
    norms = [torch.linalg.matrix_norm(residual(one)).item() for one in alone]
    assert norms == pytest.approx([norms[0] * 0.5**layer for layer in range(5)])
    assert frobenius_ratio(with_skip[-1]) > 0.9 * frobenius_ratio(states)


@pytest.mark.parametrize("measure", [frobenius_ratio, composite_ratio, mean_cosine])
def test_padding_does_not_count(measure):
    states, lengths = normal(3, T, D), (T, 5, 2)
    real = torch.stack([torch.arange(T) < length for length in lengths])
    padded = states.masked_fill(~real[..., None], 1e6)
    together = measure(padded, real)
    assert together.shape == (3,)
    for row, length in enumerate(lengths):
        alone = measure(states[row, :length])
        torch.testing.assert_close(together[row], alone)


def test_padding_has_no_residual():
    real = torch.tensor([True, True, False])
    found = residual(torch.tensor([[1.0], [3.0], [100.0]]), real)
    assert found.tolist() == [[-1], [1], [0]]


def test_one_token_has_no_pairs():
    assert mean_cosine(normal(1, D)).isnan().item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_leading_dimensions_and_precision_are_kept(dtype):
    states = normal(2, 3, T, D).to(dtype)
    for measure in (frobenius_ratio, composite_ratio, mean_cosine):
        assert measure(states).shape == (2, 3)
        assert measure(states).dtype == dtype
