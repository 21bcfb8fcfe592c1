"""Positions, read off by two layers: the probe of Haviv 2022 (arXiv 2203.16634).

D → 2D → T without biases, ReLU between them, Xavier-uniform start, cross-entropy over the T
positions, each layer's states apart: as in the authors' code. Theirs reads the states as they are;
here they are standardised first, so that one learning rate fits every layer.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.probe.linear_probe import (
    PositionScore,
    PositionTask,
    Standardisation,
    position_task,
)
from paribus.runtime import torch_generator


@dataclass(frozen=True)
class ClassifierTraining:
    """How the classifier is trained: Adam, at a constant rate."""

    n_steps: int = 1000
    tokens_per_step: int = 1024
    learning_rate: float = 1e-3


def classifier_position_score(
    states_BTD: Tensor,
    seed: int,
    *,
    is_shuffled: bool = False,
    training: ClassifierTraining | None = None,
) -> PositionScore:
    """How well the most likely position agrees with the true one; deterministic by its seed."""
    if training is None:
        training = ClassifierTraining()
    task = position_task(states_BTD.float(), seed, is_shuffled=is_shuffled)
    standardise = Standardisation.fit(task.fit_states_BTD)
    weights = fit_classifier(task, standardise, seed, training)
    with torch.no_grad():
        logits_BTT = position_logits(standardise(task.test_states_BTD), *weights)
    return task.score(logits_BTT.argmax(-1))


def position_logits(features: Tensor, up_DF: Tensor, down_FT: Tensor) -> Tensor:
    """One logit for each position, [..., T]."""
    return (features @ up_DF).relu() @ down_FT


def fit_classifier(
    task: PositionTask, standardise: Standardisation, seed: int, training: ClassifierTraining
) -> tuple[Tensor, Tensor]:
    """The weights of both layers, [D, 2D] and [2D, T], trained on the documents that fit."""
    features_ND = standardise(task.fit_states_BTD).flatten(0, 1)
    positions_N = task.fit_positions_BT.flatten()
    weights = _initial_weights(features_ND, task.fit_positions_BT.shape[1], seed)
    optimizer = torch.optim.Adam(weights, lr=training.learning_rate)
    generator = torch_generator(seed, "position probe", "batches")
    for _ in range(training.n_steps):
        tokens = torch.randint(
            len(features_ND), (training.tokens_per_step,), generator=generator
        ).to(features_ND.device)
        loss = F.cross_entropy(position_logits(features_ND[tokens], *weights), positions_N[tokens])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights[0].detach(), weights[1].detach()


def _initial_weights(features_ND: Tensor, length: int, seed: int) -> list[Tensor]:
    """Drawn on the CPU, so that every device starts alike."""
    width = features_ND.shape[1]
    generator = torch_generator(seed, "position probe", "weights")
    weights: list[Tensor] = []
    for shape in ((width, 2 * width), (2 * width, length)):
        drawn = torch.nn.init.xavier_uniform_(torch.empty(shape), generator=generator)
        weights.append(drawn.to(features_ND.device).requires_grad_())
    return weights
