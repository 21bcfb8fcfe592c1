"""Positions, read off by a line: ridge regression from a layer's states to t/T.

States are [B, T, D]: B documents of equal length, without padding. Half of the documents fit a
probe and the others test it. As a control, each document's positions are shuffled.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.errors import UnsupportedError
from paribus.runtime import torch_generator

RIDGE_PENALTY = 1e-3  # of the mean eigenvalue of ZᵀZ


@dataclass(frozen=True)
class PositionScore:
    """How well positions were predicted in documents that the probe was not fitted on."""

    mean_distance: float  # mean of |predicted - true position|, in tokens
    r2: float  # 1 - squared error over the variance of positions; at most 1
    accuracy: float  # the share of tokens whose position is predicted exactly, when rounded
    n_tokens: int


@dataclass(frozen=True, eq=False)
class PositionTask:
    """States and positions of the documents that fit a probe, and of those that test it."""

    fit_states_BTD: Tensor
    fit_positions_BT: Tensor
    test_states_BTD: Tensor
    test_positions_BT: Tensor

    def score(self, predicted_BT: Tensor) -> PositionScore:
        """What these predictions for the test documents are worth."""
        true = self.test_positions_BT.double()
        error = predicted_BT.double() - true
        return PositionScore(
            mean_distance=error.abs().mean().item(),
            r2=1 - (error.square().mean() / true.var(correction=0)).item(),
            accuracy=(predicted_BT.round() == true).double().mean().item(),
            n_tokens=true.numel(),
        )


@dataclass(frozen=True, eq=False)
class Standardisation:
    """Mean and standard deviation of each dimension over the states that fit a probe."""

    mean_D: Tensor
    scale_D: Tensor

    @classmethod
    def fit(cls, states: Tensor) -> "Standardisation":
        """Of states [..., D]; a dimension that does not vary is left at zero."""
        flat = states.flatten(0, -2)
        scale = flat.std(0, correction=0)
        return cls(flat.mean(0), scale.where(scale > 0, 1))

    def __call__(self, states: Tensor) -> Tensor:
        return (states - self.mean_D) / self.scale_D


def position_task(states_BTD: Tensor, seed: int, *, is_shuffled: bool = False) -> PositionTask:
    """Documents split by lot into halves, with their positions from 0 or, as a control, with
    these shuffled in each document.
    """
    n_documents, length = states_BTD.shape[:2]
    if n_documents < 2:
        raise UnsupportedError(
            f"the probe of positions was given {n_documents} document; give at least 2: half of"
            " them fit it and the others test it"
        )
    order = torch.randperm(
        n_documents, generator=torch_generator(seed, "position probe", "documents")
    ).to(states_BTD.device)
    positions_BT = _positions(n_documents, length, seed, is_shuffled).to(states_BTD.device)
    fit, test = order[: n_documents // 2], order[n_documents // 2 :]
    return PositionTask(states_BTD[fit], positions_BT[fit], states_BTD[test], positions_BT[test])


def ridge_position_score(
    states_BTD: Tensor, seed: int, *, is_shuffled: bool = False
) -> PositionScore:
    """How well a line through a layer's states gives the position."""
    task = position_task(states_BTD.double(), seed, is_shuffled=is_shuffled)
    length = states_BTD.shape[1]
    standardise = Standardisation.fit(task.fit_states_BTD)
    targets = task.fit_positions_BT.flatten().double() / length
    features = standardise(task.fit_states_BTD).flatten(0, 1)
    weight_D = fit_ridge(features, targets - targets.mean())
    predicted_BT = standardise(task.test_states_BTD) @ weight_D + targets.mean()
    return task.score(predicted_BT * length)


def fit_ridge(features_ND: Tensor, targets_N: Tensor, penalty: float = RIDGE_PENALTY) -> Tensor:
    """(ZᵀZ + λI)⁻¹ Zᵀy for centred features Z and targets y, [D].

    λ is `penalty` times tr(ZᵀZ)/D, the mean eigenvalue: it grows with the number of tokens and with
    the scale of the states, so one penalty fits every layer and model.
    """
    gram = features_ND.T @ features_ND
    strength = penalty * gram.trace() / len(gram)
    return torch.linalg.solve(
        gram + strength * torch.eye(len(gram)).to(gram), features_ND.T @ targets_N
    )


def _positions(n_documents: int, length: int, seed: int, is_shuffled: bool) -> Tensor:
    if not is_shuffled:
        return torch.arange(length).expand(n_documents, length)
    generator = torch_generator(seed, "position probe", "shuffled positions")
    return torch.rand(n_documents, length, generator=generator).argsort(-1)
