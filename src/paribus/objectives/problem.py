"""A problem: what a model reads, where it must answer, and what the answers are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.batch import Act, Batch, Vocabulary, acted, onto


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs and the answers to them, M a row; weight 0 where a row has fewer."""

    inputs: Batch
    at_BM: Tensor  # the positions whose output is asked for
    targets_BM: Tensor
    weights_BM: Tensor
    answers_BM: Tensor  # where in the main stack's input the target itself stands; -1 if it does not

    def mapped(self, act: Act) -> Problem:
        """The same problem with something done to each of its tensors."""
        return replace(self, inputs=self.inputs.mapped(act), **acted(self, act))

    def to(self, device: torch.device) -> Problem:
        """The same problem on another device."""
        return self.mapped(onto(device))

    def pinned(self) -> Problem:
        """The same problem in memory that a CUDA device can fetch from by itself."""
        return self.mapped(lambda tensor: tensor.contiguous().pin_memory())

    def states(self, states_BTD: Tensor) -> Tensor:
        """The rows that are asked for, [B, M, D]; words need be computed for these alone."""
        if self.at_BM.shape[1] == states_BTD.shape[1]:
            return states_BTD
        return states_BTD.gather(1, self.at_BM[..., None].expand(-1, -1, states_BTD.shape[-1]))


@dataclass(frozen=True, eq=False)
class Score:
    """Sums and counts, never means."""

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor

    def __add__(self, other: Score) -> Score:
        return Score(
            self.nats_sum + other.nats_sum, self.target_count + other.target_count, self.byte_count + other.byte_count
        )


def score(logits_BMV: Tensor, problem: Problem, vocabulary: Vocabulary) -> Score:
    """How surprised the model is by the answers."""
    nats_BM = nats(logits_BMV.flatten(0, 1), problem.targets_BM.flatten())
    weights = problem.weights_BM
    bytes_BM = vocabulary.bytes_V.to(weights.device)[problem.targets_BM]
    return Score(
        (nats_BM.view_as(weights) * weights).sum(), weights.sum(), (bytes_BM * weights.to(bytes_BM.dtype)).sum()
    )


def nats(logits_MV: Tensor, targets_M: Tensor) -> Tensor:
    """How surprised the model is by each answer, [M], in float32."""
    return F.cross_entropy(logits_MV.float(), targets_M, reduction="none")
