"""The loss of targets, in bits per byte of text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from paribus.batch import Vocabulary
from paribus.model import Transformer
from paribus.objectives import Problem, target_nats
from paribus.probe.problem_batches import (
    NumberedProblem,
    TargetAfterContext,
    numbered_problems,
    problem_batches,
    scored_states,
)
from paribus.probe.subject import ProbedModel

MAX_POSITIONS = 512  # whose logits are held at a time


@dataclass(frozen=True)
class TextLoss:
    """Nats of targets, and the bytes of text that they stand for."""

    nats: float
    n_bytes: int

    def __add__(self, other: TextLoss) -> TextLoss:
        return TextLoss(self.nats + other.nats, self.n_bytes + other.n_bytes)

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.n_bytes


NOTHING = TextLoss(0.0, 0)


def item_losses(subject: ProbedModel, items: Sequence[TargetAfterContext]) -> list[TextLoss]:
    """The loss of each target, in their order."""
    losses = [NOTHING] * len(items)
    for number, loss in problem_losses(subject, numbered_problems(items)):
        losses[number] = losses[number] + loss
    return losses


def problem_losses(
    subject: ProbedModel, numbered: Iterable[NumberedProblem]
) -> Iterator[tuple[int, TextLoss]]:
    """The loss of each problem, and its number."""
    vocabulary = subject.layout.vocabulary
    for numbers, problem in problem_batches(numbered, vocabulary.pad, subject.device):
        yield from zip(numbers, row_losses(subject.model, problem, vocabulary), strict=True)


@torch.no_grad()
def row_losses(model: Transformer, problem: Problem, vocabulary: Vocabulary) -> list[TextLoss]:
    """The loss of each row of a problem. Special tokens have no bytes, and are not counted."""
    bytes_BM = vocabulary.bytes_V.to(problem.targets_BM.device)[problem.targets_BM]
    is_text_BM = (problem.weights_BM > 0) & (bytes_BM > 0)
    nats_BM = scored_nats(model, problem, is_text_BM)
    n_bytes_B = bytes_BM.where(is_text_BM, 0).sum(1)
    pairs = zip(nats_BM.sum(1).tolist(), n_bytes_B.tolist(), strict=True)
    return [TextLoss(nats, int(n_bytes)) for nats, n_bytes in pairs]


def scored_nats(model: Transformer, problem: Problem, is_scored_BM: Tensor) -> Tensor:
    """Nats of the targets that are asked for, [B, M], in float64; 0 for the others."""
    states_MD = scored_states(model, problem)[is_scored_BM]
    targets_M = problem.targets_BM[is_scored_BM]
    nats = [torch.zeros(0, device=targets_M.device)]
    for first in range(0, len(targets_M), MAX_POSITIONS):
        some = slice(first, first + MAX_POSITIONS)
        nats.append(target_nats(model.logits(states_MD[some]), targets_M[some]))
    nats_BM = torch.zeros(is_scored_BM.shape, dtype=torch.float64, device=targets_M.device)
    return nats_BM.masked_scatter(is_scored_BM, torch.cat(nats).double())
