"""Problems of one row each as one batch, padded on the right: a row reads the same in any
company.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from paribus.batch import Batch
from paribus.objectives import Problem


def batch_problems(problems: Sequence[Problem], pad: int) -> Problem:
    """All of them at once; where a row has fewer answers, weight 0."""
    sources = [problem.inputs.source for problem in problems if problem.inputs.source is not None]
    source = _batch_inputs(sources, pad, None) if sources else None
    return Problem(
        _batch_inputs([problem.inputs for problem in problems], pad, source),
        _pad_rows([problem.scored_positions_BM for problem in problems], 0),
        _pad_rows([problem.targets_BM for problem in problems], 0),
        _pad_rows([problem.weights_BM for problem in problems], 0),
        _pad_rows([problem.target_positions_BM for problem in problems], -1),
    )


def _batch_inputs(batches: Sequence[Batch], pad: int, source: Batch | None) -> Batch:
    tokens = _pad_rows([batch.tokens_BT for batch in batches], pad)
    lengths = torch.tensor([batch.layout.length for batch in batches])
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    prefix = torch.tensor([batch.layout.prefix for batch in batches])
    # What all rows have in common is said once: it leaves a choice of faster kernels.
    alike = all(one == other for one, other in pairwise(prefix.tolist()))
    return Batch.of(
        tokens,
        prefix=int(prefix[0]) if alike else prefix,
        real_BT=None if bool(real.all()) else real,
        source=source,
    )


def _pad_rows(rows: Sequence[Tensor], value: float) -> Tensor:
    return pad_sequence([row[0] for row in rows], batch_first=True, padding_value=value)
