"""From text to a problem. Every draw is keyed by (seed, k) or (seed, k, row): never by rank or micro-batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import N_SENTINELS, Batch, Reading, Vocabulary
from paribus.errors import SpecError
from paribus.objectives.framing import Passage, apart, framing, restarted, together
from paribus.objectives.problem import Problem
from paribus.objectives.spans import SpanPlan, corrupted, holes, planned
from paribus.runtime import numbers, numbers_of_each, raw_numbers
from paribus.spec.objectives import (
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    Simple,
    SpanCorruption,
    Weighted,
    parts,
)


def pose(
    objective: Objective, reading: Reading, vocabulary: Vocabulary, seed: int, has_encoder: bool, documents: bool
) -> Problem:
    """The problem an objective makes of a reading; `documents` says whether the mask keeps them apart."""
    part = chosen(objective, seed, reading.k)
    frame = framing(part.objective, has_encoder)
    _fits(part.objective, reading)
    match part.objective:
        case CausalLM():
            return _shifted(reading, documents, ahead=True)
        case ReverseLM():
            return _shifted(reading, documents, ahead=False)
        case MaskedLM() as masked:
            return _masked(masked, reading, vocabulary, seed, documents)
        case LastToken() as last:
            return _last_token(last, reading, vocabulary, seed, documents)
        case other:
            if isinstance(other, Seq2Seq) and frame == "together":
                return _pair_together(reading)
            mode = None if part.mode is None else vocabulary.modes[part.mode]
            passage = _passage(other, reading, vocabulary, seed, frame == "together", mode)
            if frame == "together":
                return together(passage, reading.rows_B, documents)
            return apart(passage, reading.rows_B, documents, vocabulary.start)


def chosen(objective: Objective, seed: int, k: int) -> Weighted:
    """The part of a mixture that step k poses."""
    given = parts(objective)
    if len(given) == 1:
        return given[0]
    weights = np.array([part.weight for part in given])
    return given[int(numbers(seed, "objective", k).choice(len(given), p=weights / weights.sum()))]


def _fits(objective: Simple, reading: Reading) -> None:
    pairs = reading.targets_from_B is not None
    if pairs != isinstance(objective, Seq2Seq):
        needs, has = ("pairs", "running text") if not pairs else ("running text", "pairs")
        advice = "'seq2seq'" if pairs else "another objective"
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which needs {needs}, but the corpus has {has}; use {advice}"
        )


def _shifted(reading: Reading, documents: bool, ahead: bool) -> Problem:
    """Every token is read; the one at the end of the line has no neighbour left to be asked for."""
    tokens = reading.tokens_BT
    own = reading.documents_BT if documents else None
    inputs = Batch.of(
        tokens, documents_BT=own, positions_BT=None if own is None else restarted(own), rows_B=reading.rows_B
    )
    at = torch.arange(tokens.shape[1]).expand_as(tokens)
    answers = at + 1 if ahead else at - 1
    answers = torch.where(answers < tokens.shape[1], answers, -1)
    targets = torch.where(answers < 0, 0, tokens.gather(1, answers.clamp(min=0)))
    return Problem(inputs, at, targets, (answers >= 0).float(), answers)


def _masked(objective: MaskedLM, reading: Reading, vocabulary: Vocabulary, seed: int, documents: bool) -> Problem:
    tokens = reading.tokens_BT
    length, n_text = tokens.shape[1], vocabulary.n_text
    n_chosen = max(round(length * objective.rate), 1)
    drawn = raw_numbers(seed, "masked", reading.k, rows=reading.rows_B.numpy(), n=length + 2 * n_chosen)
    ranks, fates, others = np.split(drawn, [length, length + n_chosen], 1)
    spots = np.argpartition(ranks, n_chosen - 1, 1)[:, :n_chosen]  # where the least ranks fall
    at = torch.from_numpy(np.sort(spots, 1))
    fates, others = torch.from_numpy(_shares(fates)), torch.from_numpy((_shares(others) * n_text).astype(np.int64))
    targets = tokens.gather(1, at)
    masked = torch.where(fates < objective.masked, vocabulary.mask, targets)
    read = tokens.scatter(1, at, torch.where(fates >= 1 - objective.replaced, others, masked))
    own = reading.documents_BT if documents else None
    inputs = _in_place(read, own, reading.rows_B)
    # A chosen token that was left stands in its own place by design: it is no leak but part of the question.
    return Problem(inputs, at, targets, torch.ones(at.shape), torch.full_like(at, -1))


def _shares(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers of 64 bits as numbers from 0 to below 1."""
    return (numbers >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def _last_token(objective: LastToken, reading: Reading, vocabulary: Vocabulary, seed: int, documents: bool) -> Problem:
    split = _split(objective, reading, seed)
    read = reading.tokens_BT[:, : split + 1].clone()
    targets, read[:, split] = read[:, split : split + 1].clone(), vocabulary.mask
    own = reading.documents_BT[:, : split + 1] if documents else None
    inputs = _in_place(read, own, reading.rows_B)
    at = torch.full_like(targets, split)
    return Problem(inputs, at, targets, torch.ones(at.shape), torch.full_like(at, -1))


def _in_place(read_BT: Tensor, documents_BT: Tensor | None, rows_B: Tensor) -> Batch:
    """Text in which answers are hidden: all of it is the prefix, as none of it tells an answer."""
    positions_BT = None if documents_BT is None else restarted(documents_BT)
    return Batch.of(
        read_BT, prefix=read_BT.shape[1], documents_BT=documents_BT, positions_BT=positions_BT, rows_B=rows_B
    )


def _split(objective: PrefixLM | LastToken, reading: Reading, seed: int) -> int:
    """One for all rows of a step."""
    marks = splits(objective, reading.tokens_BT.shape[1])
    return marks[int(numbers(seed, "split", reading.k).integers(len(marks)))]


def splits(objective: PrefixLM | LastToken, length: int) -> list[int]:
    """Where a row of this length may be split, in order, with a token on either side."""
    grid = objective.grid
    low = min(max(round(objective.least * length), 1), length - 1)
    high = min(max(round(objective.most * length), low), length - 1)
    return sorted({place for n in range(grid + 1) if low <= (place := round(length * n / grid)) <= high}) or [low]


def _passage(
    objective: Simple, reading: Reading, vocabulary: Vocabulary, seed: int, one_sequence: bool, mode: int | None
) -> Passage:
    match objective:
        case PrefixLM() as prefix:
            passage = _cut(reading, _split(prefix, reading, seed), 0)
        case Continuation(rate=rate):
            room = 1 if one_sequence and mode is not None else 0
            length = reading.tokens_BT.shape[1] - room
            passage = _cut(reading, min(max(length - round(length * rate), 1), length - 1), room)
        case SpanCorruption() as spans:
            plan = span_plan(spans, reading.tokens_BT.shape[1], one_sequence, mode is not None)
            passage = _spans(plan, reading, vocabulary, seed)
        case _:
            passage = _pair_apart(reading, vocabulary)
    return passage if mode is None else _under(passage, mode)


def _cut(reading: Reading, split: int, unused: int) -> Passage:
    end = reading.tokens_BT.shape[1] - unused
    tokens, documents = reading.tokens_BT[:, :end], reading.documents_BT[:, :end]
    return Passage(tokens[:, :split], tokens[:, split:], documents[:, :split], documents[:, split:])


def _under(passage: Passage, mode: int) -> Passage:
    """The question with a mode sign before it, in the document of its first token."""
    asked, documents = passage.asked_BS, passage.asked_documents_BS
    return Passage(
        torch.cat([torch.full_like(asked[:, :1], mode), asked], 1),
        passage.told_BM,
        torch.cat([documents[:, :1], documents], 1),
        passage.told_documents_BM,
    )


def span_plan(objective: SpanCorruption, length: int, one_sequence: bool, has_mode: bool) -> SpanPlan:
    """How much text is cut how, so that what is read fits the length."""
    for n_text in range(length, 1, -1):
        plan = planned(n_text, objective.rate, objective.mean_span)
        read = plan.n_inputs + has_mode + (plan.n_targets if one_sequence else 0)
        if read <= length and plan.n_targets <= length:
            break
    else:
        raise SpecError(f"objective 'spans' does not fit a length of {length}; use a longer one")
    if plan.n_spans > N_SENTINELS:
        raise SpecError(
            f"objective 'spans' cuts {length} tokens into {plan.n_spans} spans, but there are {N_SENTINELS} sentinels; "
            f"use a longer mean_span, a lower rate or a shorter length"
        )
    return plan


def _spans(plan: SpanPlan, reading: Reading, vocabulary: Vocabulary, seed: int) -> Passage:
    tokens, documents = (values[:, : plan.n_text] for values in (reading.tokens_BT, reading.documents_BT))
    hole = holes(plan, numbers_of_each(seed, "spans", reading.k, last=reading.rows_B.tolist()))
    signs = hole.number_BT + vocabulary.sentinel(0)
    asked, told = corrupted(hole, tokens, signs, torch.full_like(tokens[:, 0], vocabulary.end))
    return Passage(asked, told, *corrupted(hole, documents, documents, documents[:, -1]))


def _pair_together(reading: Reading) -> Problem:
    """A pair in one row, its source as the prefix; only the target is scored, and none without a source."""
    assert reading.targets_from_B is not None
    assert reading.real_BT is not None
    tokens, real, begins = reading.tokens_BT, reading.real_BT, reading.targets_from_B[:, None]
    at = torch.arange(tokens.shape[1]).expand_as(tokens)
    inputs = Batch.of(tokens, prefix=reading.targets_from_B, real_BT=real, rows_B=reading.rows_B)
    scored = torch.zeros_like(real)
    scored[:, :-1] = real[:, 1:] & (at[:, 1:] >= begins) & (begins > 0)
    answers = torch.where(scored, at + 1, -1)
    return Problem(inputs, at, tokens.roll(-1, 1), scored.float(), answers)


def _pair_apart(reading: Reading, vocabulary: Vocabulary) -> Passage:
    """A pair as two rows of the reading's length: one shape for every batch."""
    assert reading.targets_from_B is not None
    assert reading.real_BT is not None
    place = torch.arange(reading.tokens_BT.shape[1])
    begins = reading.targets_from_B[:, None]
    n_real = reading.real_BT.sum(1, keepdim=True)
    longest = reading.tokens_BT.shape[1]
    asked_real = (place < begins).expand(-1, longest)
    told_real = place < n_real - begins
    told = reading.tokens_BT.gather(1, (place + begins).clamp(max=longest - 1))
    asked = torch.where(asked_real, reading.tokens_BT, vocabulary.pad)
    told = torch.where(told_real, told, vocabulary.pad)
    zeros = torch.zeros_like(asked)
    return Passage(asked, told, zeros, zeros, asked_real, told_real)
