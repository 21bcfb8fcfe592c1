"""What an in-context learner of linear regression could do: references to hold a model against.

A task is y = w·x with w, x ~ N(0, I_d), perhaps with noise. B tasks, K examples seen, D dimensions:
`inputs_BKD`, `outputs_BK`, and the query's input `query_BD`. Every reference gives one prediction
for each task, [B], and 0 where no example was seen.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Predict = Callable[[Tensor, Tensor, Tensor], Tensor]
RATES = tuple(2.0 ** (power / 4) for power in range(-24, 9))  # 1/64 to 4, four an octave


def ridge_prediction(
    inputs_BKD: Tensor, outputs_BK: Tensor, query_BD: Tensor, ridge: float
) -> Tensor:
    """w = (XᵀX + ridge · I)⁻¹ Xᵀy. With ridge = the variance of the noise in y it is the posterior
    mean, which no learner can beat in squared error; with 0 the shortest w that fits.
    """
    if ridge == 0:
        weight = torch.linalg.pinv(inputs_BKD) @ outputs_BK[..., None]
    else:
        transposed = inputs_BKD.transpose(-1, -2)
        gram = transposed @ inputs_BKD
        shrinkage = ridge * torch.eye(gram.shape[-1]).to(gram)
        weight = torch.linalg.solve(gram + shrinkage, transposed @ outputs_BK[..., None])
    return (query_BD * weight[..., 0]).sum(-1)


def descent_prediction(
    inputs_BKD: Tensor, outputs_BK: Tensor, query_BD: Tensor, n_steps: int, rate: float
) -> Tensor:
    """Gradient descent on the mean of ½ (w·x - y)² over the examples, from w = 0.

    Of several steps, the rate of a task is at most the limit of its stability: above it, errors
    grow with each step. One step cannot diverge, and has the rate that is given.
    """
    weight_BD = torch.zeros_like(query_BD)
    n_examples = max(inputs_BKD.shape[1], 1)
    rate_B1 = torch.full_like(query_BD[:, :1], rate)
    if n_steps > 1:
        rate_B1 = rate_B1.minimum(largest_stable_rate(inputs_BKD)[:, None])
    for _ in range(n_steps):
        error_BK = (inputs_BKD @ weight_BD[..., None])[..., 0] - outputs_BK
        gradient_BD = (error_BK[:, None] @ inputs_BKD)[:, 0] / n_examples
        weight_BD = weight_BD - rate_B1 * gradient_BD
    return (query_BD * weight_BD).sum(-1)


def largest_stable_rate(inputs_BKD: Tensor) -> Tensor:
    """2 / λmax of XᵀX / K, [B]; infinite without examples. Descent multiplies the error along an
    eigenvector by 1 - rate · λ, so up to this rate no error grows.
    """
    n_examples = max(inputs_BKD.shape[1], 1)
    curvature_BDD = inputs_BKD.mT @ inputs_BKD / n_examples
    return 2 / torch.linalg.eigvalsh(curvature_BDD)[:, -1].clamp_min(0)


def mean_prediction(inputs_BKD: Tensor, outputs_BK: Tensor, query_BD: Tensor) -> Tensor:
    """The mean of the outputs seen: a learner that does not look at the inputs."""
    return outputs_BK.sum(-1) / max(outputs_BK.shape[1], 1)


def one_step_rate(n_examples: int, n_dimensions: int) -> float:
    """The rate of a single step with the least expected squared error, without noise:
    E tr S / E tr S² = K / (K + d + 1), with S = XᵀX / K.
    """
    return n_examples / (n_examples + n_dimensions + 1)


def fit_rate(
    inputs_BKD: Tensor, outputs_BK: Tensor, query_BD: Tensor, answers_B: Tensor, n_steps: int
) -> float:
    """The rate of `RATES` with the least squared error on these tasks, one for each K and number
    of steps.

    Fit it on other tasks than those it is tested on. It is the rate most favourable to descent, as
    in von Oswald 2022, who search for it, too.
    """
    errors = []
    for rate in RATES:
        predicted_B = descent_prediction(inputs_BKD, outputs_BK, query_BD, n_steps, rate)
        errors.append((predicted_B - answers_B).square().mean().item())
    return RATES[errors.index(min(errors))]


def predictions_by_examples(
    predict: Predict, inputs_BKD: Tensor, outputs_BK: Tensor, query_BD: Tensor
) -> Tensor:
    """What a reference says after 0, 1, … K examples, [B, K + 1]."""
    return torch.stack(
        [
            predict(inputs_BKD[:, :n_seen], outputs_BK[:, :n_seen], query_BD)
            for n_seen in range(inputs_BKD.shape[1] + 1)
        ],
        -1,
    )
