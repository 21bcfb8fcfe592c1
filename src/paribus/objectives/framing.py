"""How a question and its answer are laid before a model: one table, by objective and by whether there is an encoder.

*together*: question and answer in one sequence. *apart*: the question goes to the encoder, the answer to the decoder.
*in place*: answers are given where they are hidden. *shifted*: every token is the answer to its neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from paribus.batch import Batch
from paribus.errors import SpecError
from paribus.objectives.problem import Problem
from paribus.spec.objectives import Simple

Framing = Literal["together", "apart", "in place", "shifted"]

_NO_SOURCE = "it leaves the encoder nothing to read; use 'prefix'"
_NO_PLACE = "a decoder gives no answers in place; use 'spans'"

TABLE: dict[str, tuple[Framing, Framing | None, str]] = {
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


PREFIXES: dict[Framing, str] = {
    # what a mask that asks for a prefix is given
    "together": "the question is the prefix",
    "apart": "the whole source is the prefix for an encoder; a decoder has none and is refused",
    "in place": "the whole text is the prefix",
    "shifted": "there is no prefix, so each token sees what comes before it",
}


def framing(objective: Simple, has_encoder: bool) -> Framing:
    """The framing of an objective; SpecError where an encoder-decoder has none."""
    alone, with_encoder, why_not = TABLE[objective.kind]
    if not has_encoder:
        return alone
    if with_encoder is None:
        raise SpecError(f"objective.kind is {objective.kind!r} for an encoder-decoder, but {why_not}")
    return with_encoder


@dataclass(frozen=True, eq=False)
class Passage:
    """A question and its answer, row by row; rows may end early where `real` says so."""

    asked_BS: Tensor
    told_BM: Tensor
    asked_documents_BS: Tensor
    told_documents_BM: Tensor
    asked_real_BS: Tensor | None = None
    told_real_BM: Tensor | None = None


def together(passage: Passage, rows_B: Tensor, documents: bool) -> Problem:
    """One sequence; the outputs from the question's last token on are asked for."""
    whole = torch.cat([passage.asked_BS, passage.told_BM], 1)
    n_asked, n_told = passage.asked_BS.shape[1], passage.told_BM.shape[1]
    apart = torch.cat([passage.asked_documents_BS, passage.told_documents_BM], 1) if documents else None
    inputs = Batch.of(
        whole,
        prefix=n_asked,
        documents_BT=apart,
        positions_BT=None if apart is None else restarted(apart),
        rows_B=rows_B,
    )
    at = torch.arange(n_asked - 1, n_asked + n_told - 1).expand(len(whole), -1)
    return Problem(inputs, at, passage.told_BM, torch.ones(at.shape), _next(at, whole.shape[1]))


def apart(passage: Passage, rows_B: Tensor, documents: bool, start: int) -> Problem:
    """Two sequences; the decoder reads the answer one step behind. All of the source is the encoder's prefix."""
    told = passage.told_BM
    shifted = torch.cat([torch.full_like(told[:, :1], start), told[:, :-1]], 1)
    asked_documents = passage.asked_documents_BS if documents else None
    behind = torch.cat([passage.told_documents_BM[:, :1], passage.told_documents_BM[:, :-1]], 1)
    told_documents = behind if documents else None
    source = Batch.of(
        passage.asked_BS,
        prefix=_n_asked(passage),
        real_BT=passage.asked_real_BS,
        documents_BT=asked_documents,
        positions_BT=None if asked_documents is None else restarted(asked_documents),
    )
    inputs = Batch.of(
        shifted,
        real_BT=passage.told_real_BM,
        documents_BT=told_documents,
        positions_BT=None if told_documents is None else restarted(told_documents),
        source=source,
        rows_B=rows_B,
    )
    at = torch.arange(told.shape[1]).expand(len(told), -1)
    return Problem(inputs, at, told, _weights(passage), _next(at, told.shape[1]))


def _n_asked(passage: Passage) -> int | Tensor:
    """How long the question is: in every row the same, or [B] where rows end early."""
    return passage.asked_BS.shape[1] if passage.asked_real_BS is None else passage.asked_real_BS.sum(1)


def _weights(passage: Passage) -> Tensor:
    """1 for every token that is told, but not where nothing was asked."""
    told = torch.ones(passage.told_BM.shape, dtype=torch.bool) if passage.told_real_BM is None else passage.told_real_BM
    return (told if passage.asked_real_BS is None else told & passage.asked_real_BS.any(1, keepdim=True)).float()


def _next(at: Tensor, length: int) -> Tensor:
    """The answer to a position stands right after it, if it is read at all."""
    return torch.where(at + 1 < length, at + 1, -1)


def restarted(documents_BT: Tensor) -> Tensor:
    """Positions counted anew in every document, so that a packed text reads as if alone."""
    place = torch.arange(documents_BT.shape[1]).expand_as(documents_BT)
    first = torch.ones_like(documents_BT, dtype=torch.bool)
    first[:, 1:] = documents_BT[:, 1:] != documents_BT[:, :-1]
    return place - torch.where(first, place, 0).cummax(1).values
