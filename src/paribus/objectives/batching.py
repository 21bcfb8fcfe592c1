"""Problems of one row each as one batch, padded on the right: a row reads the same in any
company.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paribus.batch import Batch, BatchLayout
from paribus.objectives.problem import Problem


def batch_problems(problems: Sequence[Problem], pad: int) -> Problem:
    """All of them at once; where a row has fewer answers, weight 0."""
    inputs, sources = [], []
    scored_positions, targets, weights, target_positions = [], [], [], []
    for problem in problems:
        inputs.append(problem.inputs)
        if problem.inputs.source is not None:
            sources.append(problem.inputs.source)
        scored_positions.append(problem.scored_positions_BM[0])
        targets.append(problem.targets_BM[0])
        weights.append(problem.weights_BM[0])
        target_positions.append(problem.target_positions_BM[0])
    source = _batch_inputs(sources, pad, None) if sources else None
    return Problem(
        inputs=_batch_inputs(inputs, pad, source),
        scored_positions_BM=_pad_rows(scored_positions, 0),
        targets_BM=_pad_rows(targets, 0),
        weights_BM=_pad_rows(weights, 0),
        target_positions_BM=_pad_rows(target_positions, -1),
    )


def _batch_inputs(batches: Sequence[Batch], pad: int, source: Batch | None) -> Batch:
    tokens = _pad_rows([batch.tokens_BT[0] for batch in batches], pad)
    lengths = torch.tensor([batch.layout.length for batch in batches])
    real_BT = torch.arange(tokens.shape[1]) < lengths[:, None]
    prefix = torch.tensor([batch.layout.prefix for batch in batches])
    # What all rows have in common is said once: it leaves a choice of faster kernels.
    if bool((prefix == prefix[0]).all()):
        prefix = int(prefix[0])
    if bool(real_BT.all()):
        real_BT = None
    layouts = [batch.layout for batch in batches]
    documents = positions = None
    if any(layout.documents_BT is not None for layout in layouts):
        documents = _pad_rows([_documents(layout) for layout in layouts], 0)
    if any(layout.positions_BT is not None for layout in layouts):
        positions = _pad_rows([_positions(layout) for layout in layouts], 0)
    return Batch.of(
        tokens,
        prefix=prefix,
        real_BT=real_BT,
        documents_BT=documents,
        positions_BT=positions,
        source=source,
    )


def _documents(layout: BatchLayout) -> Tensor:
    if layout.documents_BT is None:
        return torch.zeros(layout.length, dtype=torch.int64)
    return layout.documents_BT[0]


def _positions(layout: BatchLayout) -> Tensor:
    if layout.positions_BT is None:
        return torch.arange(layout.length)
    return layout.positions_BT[0]


def _pad_rows(rows: Sequence[Tensor], value: float) -> Tensor:
    return pad_sequence(list(rows), batch_first=True, padding_value=value)
