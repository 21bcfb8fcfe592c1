"""A problem: what a model reads, where it must answer, and what the answers are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from paribus.batch import Batch, TensorFunction, Vocabulary, map_tensors, to_device
from paribus.objectives.pooling import pool_states
from paribus.spec.objectives import Pooling


@dataclass(frozen=True, eq=False)
class Problem:
    """Inputs and the answers to them, M a row; weight 0 where a row has fewer."""

    inputs: Batch
    scored_positions_BM: Tensor  # the positions whose output is asked for
    targets_BM: Tensor
    weights_BM: Tensor
    target_positions_BM: (
        Tensor  # where in the main stack's input the target itself stands; -1 if it does not
    )
    # the positions whose states are pooled into the one that answers; None: each answers by itself
    pooled_BT: Tensor | None = None
    pooling: Pooling | None = None
    in_pairs: bool = False  # are rows 2i and 2i + 1 a chosen and a rejected response?

    @property
    def n_terms(self) -> Tensor:
        """How many terms the loss is a mean of: targets, or pairs of responses."""
        if not self.in_pairs:
            return self.weights_BM.sum()
        return self.scored_pairs.sum()

    @property
    def scored_pairs(self) -> Tensor:
        """Which pairs of responses have anything to score, [B / 2], 1 or 0."""
        is_scored_B = (self.weights_BM > 0).any(1)
        return is_scored_B.view(-1, 2).all(1).to(self.weights_BM.dtype)

    def map_tensors(self, function: TensorFunction) -> Problem:
        """A problem with a function applied to each of its tensors."""
        return replace(
            self, inputs=self.inputs.map_tensors(function), **map_tensors(self, function)
        )

    def to(self, device: torch.device) -> Problem:
        """The problem on another device."""
        return self.map_tensors(to_device(device))

    def pin_memory(self) -> Problem:
        """The problem in memory that a CUDA device can fetch from by itself."""
        return self.map_tensors(lambda tensor: tensor.contiguous().pin_memory())

    def gather_states(self, states_BTD: Tensor) -> Tensor:
        """The states at scored positions, [B, M, D]; only they need logits. Where states are
        pooled, there is one a row.
        """
        if self.pooled_BT is not None and self.pooling is not None:
            return pool_states(states_BTD, self.pooled_BT, self.pooling)[:, None]
        if self.scored_positions_BM.shape[1] == states_BTD.shape[1]:
            return states_BTD
        return states_BTD.gather(
            1, self.scored_positions_BM[..., None].expand(-1, -1, states_BTD.shape[-1])
        )


@dataclass(frozen=True, eq=False)
class Score:
    """Sums and counts, never means."""

    nats_sum: Tensor
    target_count: Tensor
    byte_count: Tensor

    def __add__(self, other: Score) -> Score:
        return Score(
            self.nats_sum + other.nats_sum,
            self.target_count + other.target_count,
            self.byte_count + other.byte_count,
        )


def score(logits_BMV: Tensor, problem: Problem, vocabulary: Vocabulary) -> Score:
    """How surprised the model is by the answers."""
    nats_BM = target_nats(logits_BMV.flatten(0, 1), problem.targets_BM.flatten())
    weights = problem.weights_BM
    bytes_BM = vocabulary.bytes_V.to(weights.device)[problem.targets_BM]
    return Score(
        (nats_BM.view_as(weights) * weights).sum(),
        weights.sum(),
        (bytes_BM * weights.to(bytes_BM.dtype)).sum(),
    )


def target_nats(logits_MV: Tensor, targets_M: Tensor) -> Tensor:
    """How surprised the model is by each answer, [M], in float32."""
    return F.cross_entropy(logits_MV.float(), targets_M, reduction="none")
