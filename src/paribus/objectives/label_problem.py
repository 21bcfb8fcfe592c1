"""The problem of a labelled text: it is read, and a head is asked for its label or for the tags of
its words.

A text is read as a document of running text: after an `eos`, unless the mask keeps documents apart.
All of it is the prefix, as none of it tells an answer. An encoder-decoder reads it with its
encoder.
"""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.batch import Batch, TextBatch, Vocabulary
from paribus.objectives.pooling import text_position
from paribus.objectives.problem import Problem
from paribus.spec.objectives import HeadObjective, TextLabels


def label_problem(
    objective: HeadObjective, text: TextBatch, vocabulary: Vocabulary, separates_documents: bool
) -> Problem:
    """What a head is asked of texts."""
    assert text.labels_BM is not None
    assert text.real_BT is not None
    tokens_BT, real_BT, is_text_BT = text.tokens_BT, text.real_BT, text.real_BT
    if not separates_documents:
        tokens_BT = _shifted(tokens_BT, vocabulary.bos)
        real_BT, is_text_BT = _shifted(real_BT, True), _shifted(real_BT, False)
    inputs = Batch.of(tokens_BT, prefix=real_BT.sum(1), real_BT=real_BT).with_rows(text.rows_B)
    if isinstance(objective, TextLabels):
        return _text_problem(objective, inputs, is_text_BT, text.labels_BM)
    labels_BT = text.labels_BM
    if not separates_documents:
        labels_BT = _shifted(labels_BT, -1)
    positions = torch.arange(tokens_BT.shape[1]).expand_as(tokens_BT)
    return Problem(
        inputs=inputs,
        scored_positions_BM=positions,
        targets_BM=labels_BT.clamp(min=0),
        weights_BM=(labels_BT >= 0).float(),
        target_positions_BM=torch.full_like(positions, -1),
    )


def _text_problem(
    objective: TextLabels, inputs: Batch, is_text_BT: Tensor, labels_B1: Tensor
) -> Problem:
    """One question a text; none of a text without a token, whose first position then stands for
    it.
    """
    has_text_B1 = is_text_BT.any(1, keepdim=True)
    first_BT = torch.arange(is_text_BT.shape[1]) == 0
    is_text_BT = is_text_BT | (first_BT & ~has_text_B1)
    pooled_BT, pooling = None, None
    if objective.pooling in ("mean", "max"):
        pooled_BT, pooling = is_text_BT, objective.pooling
        positions = torch.zeros_like(labels_B1)
    else:
        positions = text_position(is_text_BT, objective.pooling)[:, None]
    return Problem(
        inputs=inputs,
        scored_positions_BM=positions,
        targets_BM=labels_B1,
        weights_BM=has_text_B1.float(),
        target_positions_BM=torch.full_like(positions, -1),
        pooled_BT=pooled_BT,
        pooling=pooling,
    )


def _shifted(values_BT: Tensor, first: int | bool) -> Tensor:
    """Each row one place later, after a first value; the last place was left free for it."""
    return torch.cat([torch.full_like(values_BT[:, :1], first), values_BT[:, :-1]], 1)
