"""Attention rank: how many directions an attention matrix uses.

Matrices are [..., T, S]. Singular values are computed once, and every rank is a function of them.
Scores before the mask have rank at most d_head under every mask, so masks are compared on
attention.
"""

import torch
from torch import Tensor

NUMERICAL_TOLERANCES = (1e-2, 1e-4)  # of the largest singular value


def singular_values(matrices: Tensor) -> Tensor:
    """Singular values, largest first, [..., min(T, S)]; in float64 if the matrices are, else in
    float32.

    Those of float32 are the roots of the eigenvalues of AAᵀ in float64, right to about 1e-8 σ₁: on
    an H200 this is four times as fast as the default solver, which is right to 1e-4 σ₁, and on a
    CPU twice as fast. MPS has no float64.
    """
    matrices = _at_least_float32(matrices)
    if matrices.device.type == "mps" or matrices.dtype == torch.float64:
        return torch.linalg.svdvals(matrices)
    return roots_of_gram(matrices).float()


def roots_of_gram(matrices: Tensor) -> Tensor:
    """Singular values in float64 by way of the smaller of AAᵀ and AᵀA, largest first."""
    matrices = matrices.double()
    if matrices.shape[-2] > matrices.shape[-1]:
        matrices = matrices.mT
    return torch.linalg.eigvalsh(matrices @ matrices.mT).flip(-1).clamp(min=0).sqrt()


def effective_rank(values: Tensor) -> Tensor:
    """exp(-Σ p ln p) with p = σ/Σσ (Roy and Vetterli 2007): 1 for rank one, n for n equal values.

    NaN for a matrix of zeros, which has no directions.
    """
    shares = values / values.sum(-1, keepdim=True)
    return torch.special.entr(shares).sum(-1).exp()


def relative_effective_rank(values: Tensor) -> Tensor:
    """The effective rank over min(T, S), the most that it could be."""
    return effective_rank(values) / values.shape[-1]


def stable_rank(values: Tensor) -> Tensor:
    """‖A‖²_F / σ₁²: at most the rank, and hardly moved by small singular values."""
    return _relative(values).square().sum(-1)


def numerical_rank(values: Tensor, tolerance: float) -> Tensor:
    """How many singular values exceed tolerance · σ₁."""
    return (values > tolerance * values[..., :1]).sum(-1)


def rounding_tolerance(matrices: Tensor) -> float:
    """max(T, S) · eps: below this, a singular value of these matrices may be rounding alone."""
    dtype = torch.promote_types(matrices.dtype, torch.float32)
    return max(matrices.shape[-2:]) * torch.finfo(dtype).eps


def energy_shares(values: Tensor) -> Tensor:
    """Σ_{i ≤ k} σ_i² / Σ σ² for k = 1 … min(T, S)."""
    energy = _relative(values).square().cumsum(-1)
    return energy / energy[..., -1:]


def attention_weights(scores: Tensor, visible: Tensor) -> Tensor:
    """softmax over the visible keys; zeros for a query that sees nothing."""
    return log_attention_weights(scores, visible).exp()


def log_attention_weights(scores: Tensor, visible: Tensor) -> Tensor:
    """Logarithms of attention weights, -inf where hidden: these do not underflow."""
    scores = _at_least_float32(scores)
    hidden = ~visible
    log_weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).log_softmax(-1)
    return log_weights.masked_fill(hidden, float("-inf"))


def at_score_scale(scores: Tensor, visible: Tensor, sd: float) -> Tensor:
    """Attention weights as they would be if the visible scores of each matrix had this standard
    deviation.
    """
    return attention_weights(rescale_scores(scores, visible, sd), visible)


def rescale_scores(scores: Tensor, visible: Tensor, sd: float) -> Tensor:
    """Scores whose visible pairs have mean 0 and this standard deviation, matrix by matrix.

    The mean does not matter: it shifts all scores of a row alike, and softmax does not see that. It
    is removed so that large scores keep their digits. Equal scores stay equal.
    """
    scores = _at_least_float32(scores)
    visible = visible.expand_as(scores)
    n_pairs = visible.sum((-2, -1), keepdim=True)
    mean = scores.where(visible, 0).sum((-2, -1), keepdim=True) / n_pairs
    centred = (scores - mean).where(visible, 0)
    spread = (centred.square().sum((-2, -1), keepdim=True) / n_pairs).sqrt()
    return centred * (sd / spread).where(spread > 0, 0)


def log_determinant(scores: Tensor, visible: Tensor) -> Tensor | None:
    """ln |det A| of self-attention, in float64; None where A is not square, as in
    cross-attention.

    Under a triangular mask it is the sum of the logarithms of the diagonal: exact, and without
    underflow. Under any other mask it comes from an LU decomposition.
    """
    if scores.shape[-1] != scores.shape[-2]:
        return None
    log_weights = log_attention_weights(scores.double(), visible)
    of_diagonal = log_weights.diagonal(dim1=-2, dim2=-1).sum(-1)
    triangular = are_triangular(visible)
    if triangular.all():
        return of_diagonal
    return torch.where(triangular, of_diagonal, torch.linalg.slogdet(log_weights.exp()).logabsdet)


def are_triangular(visible: Tensor) -> Tensor:
    """Which masks show no query a later key, or no query an earlier one, [...]."""
    sees_later = visible.triu(1).any(-1).any(-1)
    sees_earlier = visible.tril(-1).any(-1).any(-1)
    return ~(sees_later & sees_earlier)


def _relative(values: Tensor) -> Tensor:
    """Singular values over the largest, whose squares neither overflow nor vanish."""
    return values / values[..., :1]


def _at_least_float32(tensor: Tensor) -> Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
