"""How source and target are arranged as model input, by objective and by whether there is an
encoder.

*together*: source and target in one sequence. *apart*: the source goes to the encoder, the target
to the decoder. *in place*: tokens are predicted where they are hidden. *shifted*: each token is
predicted from those before it ('reverse': after it).
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


@dataclass(frozen=True)
class ObjectiveLayouts:
    """The layouts of an objective; None if an encoder-decoder has none, with the reason."""

    without_encoder: ProblemLayout
    with_encoder: ProblemLayout | None
    refusal_reason: str = ""


PROBLEM_LAYOUTS: dict[str, ObjectiveLayouts] = {
    "causal": ObjectiveLayouts("shifted", None, _NO_SOURCE),
    "reverse": ObjectiveLayouts("shifted", None, _NO_SOURCE),
    "prefix": ObjectiveLayouts("together", "apart"),
    "masked": ObjectiveLayouts("in place", None, _NO_PLACE),
    "last_token": ObjectiveLayouts("in place", None, _NO_PLACE),
    "spans": ObjectiveLayouts("together", "apart"),
    "continuation": ObjectiveLayouts("together", "apart"),
    "seq2seq": ObjectiveLayouts("together", "apart"),
    # a head reads the states of a text, which an encoder-decoder's encoder gives
    "labels": ObjectiveLayouts("in place", "in place"),
    "tags": ObjectiveLayouts("in place", "in place"),
}


# which tokens a mask's `prefix` covers
PREFIX_DESCRIPTIONS: dict[ProblemLayout, str] = {
    "together": "the source is the prefix",
    "apart": (
        "in the encoder the whole source is the prefix; a prefix mask in the decoder is refused"
    ),
    "in place": "the whole text is the prefix",
    "shifted": "there is no prefix, so each token sees itself and those before it, as under causal",
}


def problem_layout(objective: SimpleObjective, has_encoder: bool) -> ProblemLayout:
    """The layout of an objective; raises SpecError if it has none for an encoder-decoder."""
    layouts = PROBLEM_LAYOUTS[objective.kind]
    if not has_encoder:
        return layouts.without_encoder
    if layouts.with_encoder is None:
        raise SpecError(
            f"objective.kind is {objective.kind!r} for an encoder-decoder, but"
            f" {layouts.refusal_reason}"
        )
    return layouts.with_encoder


@dataclass(frozen=True, eq=False)
class SourceTarget:
    """A batch of sources and targets. `*_real` is False on padding; None means no padding.
    `target_scored_BM` says which targets are asked for; None means all.

    B rows, S source tokens, M target tokens.
    """

    source_BS: Tensor
    target_BM: Tensor
    source_documents_BS: Tensor
    target_documents_BM: Tensor
    source_real_BS: Tensor | None = None
    target_real_BM: Tensor | None = None
    target_scored_BM: Tensor | None = None


def one_sequence_problem(pair: SourceTarget, rows_B: Tensor, separates_documents: bool) -> Problem:
    """Source and target in one sequence; outputs from the last source token on are scored."""
    tokens = torch.cat([pair.source_BS, pair.target_BM], 1)
    n_source = pair.source_BS.shape[1]
    n_target = pair.target_BM.shape[1]
    if separates_documents:
        document_numbers = torch.cat([pair.source_documents_BS, pair.target_documents_BM], 1)
    else:
        document_numbers = None
    inputs = Batch.of(
        tokens,
        prefix=n_source,
        documents_BT=document_numbers,
        positions_BT=_optional_positions(document_numbers),
    ).with_rows(rows_B)
    scored_positions = torch.arange(n_source - 1, n_source + n_target - 1).expand(len(tokens), -1)
    return Problem(
        inputs=inputs,
        scored_positions_BM=scored_positions,
        targets_BM=pair.target_BM,
        weights_BM=torch.ones(scored_positions.shape),
        target_positions_BM=_next_positions(scored_positions, tokens.shape[1]),
    )


def encoder_decoder_problem(
    pair: SourceTarget, rows_B: Tensor, separates_documents: bool, decoder_start: int
) -> Problem:
    """Source to the encoder, target shifted right to the decoder; the whole source is the
    encoder's prefix.
    """
    targets = pair.target_BM
    decoder_inputs = torch.cat([torch.full_like(targets[:, :1], decoder_start), targets[:, :-1]], 1)
    if separates_documents:
        source_documents = pair.source_documents_BS
        decoder_documents = _shifted_documents(pair.target_documents_BM)
    else:
        source_documents = decoder_documents = None
    source = Batch.of(
        pair.source_BS,
        prefix=_source_length(pair),
        real_BT=pair.source_real_BS,
        documents_BT=source_documents,
        positions_BT=_optional_positions(source_documents),
    )
    inputs = Batch.of(
        decoder_inputs,
        real_BT=pair.target_real_BM,
        documents_BT=decoder_documents,
        positions_BT=_optional_positions(decoder_documents),
        source=source,
    ).with_rows(rows_B)
    scored_positions = torch.arange(targets.shape[1]).expand(len(targets), -1)
    return Problem(
        inputs=inputs,
        scored_positions_BM=scored_positions,
        targets_BM=targets,
        weights_BM=_target_weights(pair),
        target_positions_BM=_next_positions(scored_positions, targets.shape[1]),
    )


def _shifted_documents(documents_BM: Tensor) -> Tensor:
    """The documents of a target shifted right; the first number also stands for decoder_start."""
    return torch.cat([documents_BM[:, :1], documents_BM[:, :-1]], 1)


def _source_length(pair: SourceTarget) -> int | Tensor:
    """Source tokens without padding: one number for every row, or [B] if there is padding."""
    if pair.source_real_BS is None:
        return pair.source_BS.shape[1]
    return pair.source_real_BS.sum(1)


def _target_weights(pair: SourceTarget) -> Tensor:
    """1 for each real target token that is asked for; 0 in rows without any source token."""
    if pair.target_scored_BM is not None:
        is_scored = pair.target_scored_BM
    elif pair.target_real_BM is None:
        is_scored = torch.ones(pair.target_BM.shape, dtype=torch.bool)
    else:
        is_scored = pair.target_real_BM
    if pair.source_real_BS is not None:
        is_scored = is_scored & pair.source_real_BS.any(1, keepdim=True)
    return is_scored.float()


def _next_positions(positions: Tensor, length: int) -> Tensor:
    """Where each target is itself an input: the next position, or -1 past the end."""
    return torch.where(positions + 1 < length, positions + 1, -1)


def _optional_positions(documents_BT: Tensor | None) -> Tensor | None:
    """Positions within each document, or None if documents are not separated."""
    if documents_BT is None:
        return None
    return document_positions(documents_BT)


def document_positions(documents_BT: Tensor) -> Tensor:
    """Positions counted from 0 in each document, so that a packed text is read as if alone."""
    positions = torch.arange(documents_BT.shape[1]).expand_as(documents_BT)
    is_first = torch.ones_like(documents_BT, dtype=torch.bool)
    is_first[:, 1:] = documents_BT[:, 1:] != documents_BT[:, :-1]
    return positions - torch.where(is_first, positions, 0).cummax(1).values
