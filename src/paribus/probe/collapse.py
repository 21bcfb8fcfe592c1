"""Collapse with depth: how far the states of a text's tokens are from being all equal.

States are [..., T, D]. Where a mask of real tokens is given, [..., T], padding is left out.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def residual(states: Tensor, real: Tensor | None = None) -> Tensor:
    """res(X) = X - 1x̄ᵀ with x̄ the mean row, and zeros for padding.

    1x̄ᵀ is the nearest matrix with equal rows in the Frobenius norm. Dong 2021 takes the nearest one
    and leaves the norm open.
    """
    states, n_tokens = _without_padding(states, real)
    mean = states.sum(-2, keepdim=True) / n_tokens[..., None, None]
    return _without_padding(states - mean, real)[0]


def frobenius_ratio(states: Tensor, real: Tensor | None = None) -> Tensor:
    """‖res(X)‖ / ‖X‖ in the Frobenius norm: 0 where all tokens are equal, 1 where they cancel."""
    states = _without_padding(states, real)[0]
    residual_norm = torch.linalg.matrix_norm(residual(states, real))
    return residual_norm / torch.linalg.matrix_norm(states)


def composite_ratio(states: Tensor, real: Tensor | None = None) -> Tensor:
    """‖res(X)‖ / ‖X‖ in √(‖·‖₁ ‖·‖∞), the norm of Dong 2021. It may exceed 1."""
    states = _without_padding(states, real)[0]
    return composite_norm(residual(states, real)) / composite_norm(states)


def composite_norm(matrices: Tensor) -> Tensor:
    """√(‖·‖₁ ‖·‖∞): the largest sum of a column's magnitudes, times the largest of a row's."""
    magnitudes = matrices.abs()
    return (magnitudes.sum(-2).amax(-1) * magnitudes.sum(-1).amax(-1)).sqrt()


def mean_cosine(states: Tensor, real: Tensor | None = None) -> Tensor:
    """The mean cosine similarity of two different tokens; NaN for a text of one token.

    Σ_{i≠j} u_i·u_j = ‖Σ u_i‖² - Σ ‖u_i‖² for unit rows u, so no T × T matrix is made.
    """
    states, n_tokens = _without_padding(states, real)
    units = F.normalize(states, dim=-1)
    pairs = units.sum(-2).square().sum(-1) - units.square().sum((-2, -1))
    return pairs / (n_tokens * (n_tokens - 1))


def _without_padding(states: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
    """States with zeros for padding, and the number of real tokens of each text."""
    if real is None:
        real = states.new_ones(states.shape[:-1], dtype=torch.bool)
    return states.where(real[..., None], 0), real.sum(-1)
