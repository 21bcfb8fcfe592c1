"""Contexts with their answers so far, as one batch for a model."""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.objectives.framing import ItemLayout


def answer_batch(
    layout: ItemLayout, inputs: Tensor, lengths: Tensor | None, answer: Tensor
) -> Batch:
    """Each context with its answer so far, which begins with what opens it.

    Contexts stand at the left of their rows; `lengths` says how long each is, None that all rows
    are full.
    """
    if layout.framing != "apart":
        return _one_sequence_batch(layout, inputs, lengths, answer)
    start = torch.full_like(inputs[:, :1], layout.vocabulary.decoder_start)
    # as in training: all of a source is its prefix
    whole = inputs.shape[1] if lengths is None else lengths
    source = Batch.of(inputs, prefix=whole, real_BT=real_mask(lengths, inputs.shape[1]))
    return Batch.of(torch.cat([start, answer], 1), source=source)


def _one_sequence_batch(
    layout: ItemLayout, inputs: Tensor, lengths: Tensor | None, answer: Tensor
) -> Batch:
    """Each context with its answer so far right after it, padded on the right, cut where no row
    has more room.
    """
    if layout.framing == "in place":
        answer = torch.cat([answer, torch.full_like(inputs[:, :1], layout.vocabulary.mask)], 1)
    whole = torch.cat([inputs, answer], 1)
    n_answer = answer.shape[1]
    if lengths is None:
        longest, n_inputs, real_BT = whole.shape[1], inputs.shape[1], None
    else:
        whole = whole.scatter(
            1, lengths[:, None] + torch.arange(n_answer, device=answer.device), answer
        )
        longest, n_inputs = min(int(lengths.max()) + n_answer, layout.window), lengths
        real_BT = real_mask(lengths + n_answer, longest)
    match layout.framing:
        case "in place":  # nothing in sight is an answer that is asked for
            prefix = _at_most(n_inputs + n_answer, longest)
        case "together":
            prefix = n_inputs
        case _:
            prefix = 0
    return Batch.of(whole[:, :longest], prefix=prefix, real_BT=real_BT)


def _at_most(lengths: int | Tensor, longest: int) -> int | Tensor:
    if isinstance(lengths, Tensor):
        return lengths.clamp(max=longest)
    return min(lengths, longest)


def real_mask(lengths: Tensor | None, longest: int) -> Tensor | None:
    """Where rows of these lengths have tokens, [B, T]; None where all are full."""
    if lengths is None:
        return None
    return torch.arange(longest, device=lengths.device) < lengths[:, None]


def n_positions_read(
    layout: ItemLayout, inputs: Tensor, lengths: Tensor | None, n_answer: int
) -> Tensor:
    """How many positions the main stack reads, [B], before it says what follows its answer so
    far.
    """
    match layout.framing:
        case "apart":
            return torch.full_like(inputs[:, 0], 1 + n_answer)
        case "in place":
            n_answer += 1  # the mask that is to be filled
        case "together" | "shifted":
            pass
    if lengths is None:
        return torch.full_like(inputs[:, 0], inputs.shape[1] + n_answer)
    return lengths + n_answer
