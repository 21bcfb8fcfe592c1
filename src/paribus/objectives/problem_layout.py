"""How a question and its answer are laid before a model: one table, by objective and by whether
there is an encoder.

*together*: source and target in one sequence. *apart*: the source goes to the encoder, the target
to the decoder. *in place*: tokens are predicted where they are hidden. *shifted*: every token is
predicted from its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.objectives.problem import Problem
from paribus.spec.objectives import SimpleObjective

ProblemLayout = Literal["together", "apart", "in place", "shifted"]

_NO_SOURCE = "it leaves the encoder nothing to read; use 'prefix'"
_NO_PLACE = "a decoder gives no answers in place; use 'spans'"

PROBLEM_LAYOUTS: dict[str, tuple[ProblemLayout, ProblemLayout | None, str]] = {
    # objective: one stack, encoder-decoder, why not
    "causal": ("shifted", None, _NO_SOURCE),
    "reverse": ("shifted", None, _NO_SOURCE),
    "prefix": ("together", "apart", ""),
    "masked": ("in place", None, _NO_PLACE),
    "last_token": ("in place", None, _NO_PLACE),
    "spans": ("together", "apart", ""),
    "continuation": ("together", "apart", ""),
    "seq2seq": ("together", "apart", ""),
}


PREFIX_NOTES: dict[ProblemLayout, str] = {
    # what a mask that asks for a prefix is given
    "together": "the question is the prefix",
    "apart": "the whole source is the prefix for an encoder; a decoder has none and is refused",
    "in place": "the whole text is the prefix",
    "shifted": "there is no prefix, so each token sees what comes before it",
}


def problem_layout(objective: SimpleObjective, has_encoder: bool) -> ProblemLayout:
    """The framing of an objective; SpecError where an encoder-decoder has none."""
    alone, with_encoder, why_not = PROBLEM_LAYOUTS[objective.kind]
    if not has_encoder:
        return alone
    if with_encoder is None:
        raise SpecError(
            f"objective.kind is {objective.kind!r} for an encoder-decoder, but {why_not}"
        )
    return with_encoder


@dataclass(frozen=True, eq=False)
class SourceTarget:
    """A question and its answer, row by row; rows may end early where `real` says so."""

    source_BS: Tensor
    target_BM: Tensor
    source_documents_BS: Tensor
    target_documents_BM: Tensor
    source_real_BS: Tensor | None = None
    target_real_BM: Tensor | None = None


def one_sequence_problem(pair: SourceTarget, rows_B: Tensor, separates_documents: bool) -> Problem:
    """One sequence; the outputs from the question's last token on are asked for."""
    whole = torch.cat([pair.source_BS, pair.target_BM], 1)
    n_asked, n_told = pair.source_BS.shape[1], pair.target_BM.shape[1]
    if separates_documents:
        apart = torch.cat([pair.source_documents_BS, pair.target_documents_BM], 1)
    else:
        apart = None
    inputs = Batch.of(
        whole,
        prefix=n_asked,
        documents_BT=apart,
        positions_BT=None if apart is None else document_positions(apart),
    ).with_rows(rows_B)
    at = torch.arange(n_asked - 1, n_asked + n_told - 1).expand(len(whole), -1)
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=pair.target_BM,
        weights_BM=torch.ones(at.shape),
        target_positions_BM=_next_positions(at, whole.shape[1]),
    )


def encoder_decoder_problem(
    pair: SourceTarget, rows_B: Tensor, separates_documents: bool, decoder_start: int
) -> Problem:
    """Two sequences; the decoder reads the answer one step behind. All of the source is the
    encoder's prefix.
    """
    told = pair.target_BM
    shifted = torch.cat([torch.full_like(told[:, :1], decoder_start), told[:, :-1]], 1)
    asked_documents = pair.source_documents_BS if separates_documents else None
    behind = torch.cat([pair.target_documents_BM[:, :1], pair.target_documents_BM[:, :-1]], 1)
    told_documents = behind if separates_documents else None
    source = Batch.of(
        pair.source_BS,
        prefix=_source_length(pair),
        real_BT=pair.source_real_BS,
        documents_BT=asked_documents,
        positions_BT=None if asked_documents is None else document_positions(asked_documents),
    )
    inputs = Batch.of(
        shifted,
        real_BT=pair.target_real_BM,
        documents_BT=told_documents,
        positions_BT=None if told_documents is None else document_positions(told_documents),
        source=source,
    ).with_rows(rows_B)
    at = torch.arange(told.shape[1]).expand(len(told), -1)
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=told,
        weights_BM=_target_weights(pair),
        target_positions_BM=_next_positions(at, told.shape[1]),
    )


def _source_length(pair: SourceTarget) -> int | Tensor:
    """How long the question is: in every row the same, or [B] where rows end early."""
    if pair.source_real_BS is None:
        return pair.source_BS.shape[1]
    return pair.source_real_BS.sum(1)


def _target_weights(pair: SourceTarget) -> Tensor:
    """1 for every token that is told, but not where nothing was asked."""
    if pair.target_real_BM is None:
        told = torch.ones(pair.target_BM.shape, dtype=torch.bool)
    else:
        told = pair.target_real_BM
    return (
        told if pair.source_real_BS is None else told & pair.source_real_BS.any(1, keepdim=True)
    ).float()


def _next_positions(positions: Tensor, length: int) -> Tensor:
    """The answer to a position stands right after it, if it is read at all."""
    return torch.where(positions + 1 < length, positions + 1, -1)


def document_positions(documents_BT: Tensor) -> Tensor:
    """Positions counted anew in every document, so that a packed text reads as if alone."""
    place = torch.arange(documents_BT.shape[1]).expand_as(documents_BT)
    first = torch.ones_like(documents_BT, dtype=torch.bool)
    first[:, 1:] = documents_BT[:, 1:] != documents_BT[:, :-1]
    return place - torch.where(first, place, 0).cummax(1).values
