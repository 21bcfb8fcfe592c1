"""From text to a problem. Every draw is keyed by (seed, k) or (seed, k, row): never by rank or
micro-batch.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import N_SENTINELS, Batch, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives.problem import Problem
from paribus.objectives.problem_layout import (
    SourceTarget,
    document_positions,
    encoder_decoder_problem,
    one_sequence_problem,
    problem_layout,
)
from paribus.objectives.spans import SpanPlan, corrupt_spans, draw_spans, plan_spans
from paribus.runtime import numpy_generator, numpy_generator_per_name, random_uint64
from paribus.spec.objectives import (
    CausalLM,
    Continuation,
    LastToken,
    MaskedLM,
    MixtureComponent,
    Objective,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SimpleObjective,
    SpanCorruption,
    components_of,
)


def pose_problem(
    objective: Objective,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    has_encoder: bool,
    separates_documents: bool,
) -> Problem:
    """The problem that an objective makes of a text; `separates_documents` says whether the mask
    does.
    """
    component = draw_component(objective, seed, text.k)
    framing = problem_layout(component.objective, has_encoder)
    _require_matching_text(component.objective, text)
    match component.objective:
        case CausalLM():
            return _shifted_problem(text, separates_documents, ahead=True)
        case ReverseLM():
            return _shifted_problem(text, separates_documents, ahead=False)
        case MaskedLM() as masked_lm:
            return _masked_problem(masked_lm, text, vocabulary, seed, separates_documents)
        case LastToken() as last_token:
            return _last_token_problem(last_token, text, vocabulary, seed, separates_documents)
        case other:
            if isinstance(other, Seq2Seq) and framing == "together":
                return _one_sequence_pair(text)
            if component.mode is None:
                mode = None
            else:
                mode = vocabulary.mode_tokens[component.mode]
            passage = _source_target(other, text, vocabulary, seed, framing == "together", mode)
            if framing == "together":
                return one_sequence_problem(passage, text.rows_B, separates_documents)
            return encoder_decoder_problem(
                passage, text.rows_B, separates_documents, vocabulary.decoder_start
            )


def draw_component(objective: Objective, seed: int, k: int) -> MixtureComponent:
    """The component of a mixture that step k poses."""
    components = components_of(objective)
    if len(components) == 1:
        return components[0]
    weights = np.array([component.weight for component in components])
    return components[
        int(
            numpy_generator(seed, "objective", k).choice(len(components), p=weights / weights.sum())
        )
    ]


def _require_matching_text(objective: SimpleObjective, text: TextBatch) -> None:
    pairs = text.target_starts_B is not None
    if pairs != isinstance(objective, Seq2Seq):
        if not pairs:
            needs, has = ("pairs", "running text")
        else:
            needs, has = ("running text", "pairs")
        advice = "'seq2seq'" if pairs else "another objective"
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which needs {needs}, but the corpus has {has};"
            f" use {advice}"
        )


def _shifted_problem(text: TextBatch, separates_documents: bool, ahead: bool) -> Problem:
    """Every token is read; the one at the end of the line has no neighbour left to be asked for."""
    tokens = text.tokens_BT
    own = text.documents_BT if separates_documents else None
    inputs = Batch.of(
        tokens,
        documents_BT=own,
        positions_BT=None if own is None else document_positions(own),
    ).with_rows(text.rows_B)
    at = torch.arange(tokens.shape[1]).expand_as(tokens)
    answers = at + 1 if ahead else at - 1
    answers = torch.where(answers < tokens.shape[1], answers, -1)
    targets = torch.where(answers < 0, 0, tokens.gather(1, answers.clamp(min=0)))
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=targets,
        weights_BM=(answers >= 0).float(),
        target_positions_BM=answers,
    )


def _masked_problem(
    objective: MaskedLM,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    separates_documents: bool,
) -> Problem:
    tokens = text.tokens_BT
    length, n_text = tokens.shape[1], vocabulary.n_text
    n_chosen = max(round(length * objective.rate), 1)
    numbers = random_uint64(
        seed, "masked", text.k, rows=text.rows_B.numpy(), n=length + 2 * n_chosen
    )
    ranks, fates, others = np.split(numbers, [length, length + n_chosen], 1)
    spots = np.argpartition(ranks, n_chosen - 1, 1)[:, :n_chosen]  # where the least ranks fall
    at = torch.from_numpy(np.sort(spots, 1))
    fates, others = (
        torch.from_numpy(_unit_floats(fates)),
        torch.from_numpy((_unit_floats(others) * n_text).astype(np.int64)),
    )
    targets = tokens.gather(1, at)
    replacements = torch.where(fates < objective.masked, vocabulary.mask, targets)
    corrupted_tokens = tokens.scatter(
        1, at, torch.where(fates >= 1 - objective.replaced, others, replacements)
    )
    own = text.documents_BT if separates_documents else None
    inputs = _in_place_batch(corrupted_tokens, own, text.rows_B)
    # A chosen token that was left stands in its own place by design: it is no leak but part of the
    # question.
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=targets,
        weights_BM=torch.ones(at.shape),
        target_positions_BM=torch.full_like(at, -1),
    )


def _unit_floats(numbers: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Numbers of 64 bits as numbers from 0 to below 1."""
    return (numbers >> np.uint64(11)).astype(np.float64) * np.float64(2.0**-53)


def _last_token_problem(
    objective: LastToken,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    separates_documents: bool,
) -> Problem:
    split = _draw_split(objective, text, seed)
    tokens = text.tokens_BT[:, : split + 1].clone()
    targets, tokens[:, split] = tokens[:, split : split + 1].clone(), vocabulary.mask
    own = text.documents_BT[:, : split + 1] if separates_documents else None
    inputs = _in_place_batch(tokens, own, text.rows_B)
    at = torch.full_like(targets, split)
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=targets,
        weights_BM=torch.ones(at.shape),
        target_positions_BM=torch.full_like(at, -1),
    )


def _in_place_batch(tokens_BT: Tensor, documents_BT: Tensor | None, rows_B: Tensor) -> Batch:
    """Text in which answers are hidden: all of it is the prefix, as none of it tells an answer."""
    if documents_BT is None:
        positions_BT = None
    else:
        positions_BT = document_positions(documents_BT)
    return Batch.of(
        tokens_BT,
        prefix=tokens_BT.shape[1],
        documents_BT=documents_BT,
        positions_BT=positions_BT,
    ).with_rows(rows_B)


def _draw_split(objective: PrefixLM | LastToken, text: TextBatch, seed: int) -> int:
    """Where the text is split: one place for all rows of a step."""
    marks = possible_splits(objective, text.tokens_BT.shape[1])
    return marks[int(numpy_generator(seed, "split", text.k).integers(len(marks)))]


def possible_splits(objective: PrefixLM | LastToken, length: int) -> list[int]:
    """Where a row of this length may be split, in order, with a token on either side."""
    grid = objective.grid
    low = min(max(round(objective.least * length), 1), length - 1)
    high = min(max(round(objective.most * length), low), length - 1)
    return sorted(
        {place for n in range(grid + 1) if low <= (place := round(length * n / grid)) <= high}
    ) or [low]


def _source_target(
    objective: SimpleObjective,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    one_sequence: bool,
    mode: int | None,
) -> SourceTarget:
    match objective:
        case PrefixLM() as prefix:
            passage = _cut_text(text, _draw_split(prefix, text, seed), 0)
        case Continuation(rate=rate):
            room = 1 if one_sequence and mode is not None else 0
            length = text.tokens_BT.shape[1] - room
            passage = _cut_text(text, min(max(length - round(length * rate), 1), length - 1), room)
        case SpanCorruption() as spans:
            plan = fit_span_plan(spans, text.tokens_BT.shape[1], one_sequence, mode is not None)
            passage = _corrupt_text(plan, text, vocabulary, seed)
        case _:
            passage = _two_sequence_pair(text, vocabulary)
    if mode is None:
        return passage
    return _with_mode_token(passage, mode)


def _cut_text(text: TextBatch, split: int, n_unused: int) -> SourceTarget:
    end = text.tokens_BT.shape[1] - n_unused
    tokens, documents = text.tokens_BT[:, :end], text.documents_BT[:, :end]
    return SourceTarget(
        source_BS=tokens[:, :split],
        target_BM=tokens[:, split:],
        source_documents_BS=documents[:, :split],
        target_documents_BM=documents[:, split:],
    )


def _with_mode_token(pair: SourceTarget, mode: int) -> SourceTarget:
    """The source with a mode token before it, in the document of its first token."""
    source = pair.source_BS
    documents = pair.source_documents_BS
    return SourceTarget(
        source_BS=torch.cat([torch.full_like(source[:, :1], mode), source], 1),
        target_BM=pair.target_BM,
        source_documents_BS=torch.cat([documents[:, :1], documents], 1),
        target_documents_BM=pair.target_documents_BM,
    )


def fit_span_plan(
    objective: SpanCorruption, length: int, one_sequence: bool, has_mode: bool
) -> SpanPlan:
    """How much text is cut how, so that what is read fits the length."""
    for n_text in range(length, 1, -1):
        plan = plan_spans(n_text, objective.rate, objective.mean_span)
        n_read = plan.n_inputs + has_mode + (plan.n_targets if one_sequence else 0)
        if n_read <= length and plan.n_targets <= length:
            break
    else:
        raise SpecError(f"objective 'spans' does not fit a length of {length}; use a longer one")
    if plan.n_spans > N_SENTINELS:
        raise SpecError(
            f"objective 'spans' cuts {length} tokens into {plan.n_spans} spans, but there are"
            f" {N_SENTINELS} sentinels; use a longer mean_span, a lower rate or a shorter length"
        )
    return plan


def _corrupt_text(
    plan: SpanPlan, text: TextBatch, vocabulary: Vocabulary, seed: int
) -> SourceTarget:
    tokens, documents = (values[:, : plan.n_text] for values in (text.tokens_BT, text.documents_BT))
    spans = draw_spans(
        plan, numpy_generator_per_name(seed, "spans", text.k, last_names=text.rows_B.tolist())
    )
    sentinels = spans.span_numbers_BT + vocabulary.sentinel(0)
    ends = torch.full_like(tokens[:, 0], vocabulary.eos)
    source, target = corrupt_spans(spans, tokens, sentinels, ends)
    source_documents, target_documents = corrupt_spans(
        spans, documents, documents, documents[:, -1]
    )
    return SourceTarget(
        source_BS=source,
        target_BM=target,
        source_documents_BS=source_documents,
        target_documents_BM=target_documents,
    )


def _one_sequence_pair(text: TextBatch) -> Problem:
    """A pair in one row, its source as the prefix; only the target is scored, and none without
    a source.
    """
    assert text.target_starts_B is not None
    assert text.real_BT is not None
    tokens, real, target_starts = text.tokens_BT, text.real_BT, text.target_starts_B[:, None]
    at = torch.arange(tokens.shape[1]).expand_as(tokens)
    inputs = Batch.of(tokens, prefix=text.target_starts_B, real_BT=real).with_rows(text.rows_B)
    is_scored = torch.zeros_like(real)
    is_scored[:, :-1] = real[:, 1:] & (at[:, 1:] >= target_starts) & (target_starts > 0)
    answers = torch.where(is_scored, at + 1, -1)
    return Problem(
        inputs=inputs,
        scored_positions_BM=at,
        targets_BM=tokens.roll(-1, 1),
        weights_BM=is_scored.float(),
        target_positions_BM=answers,
    )


def _two_sequence_pair(text: TextBatch, vocabulary: Vocabulary) -> SourceTarget:
    """A pair as two rows of the text's length: one shape for every batch."""
    assert text.target_starts_B is not None
    assert text.real_BT is not None
    place = torch.arange(text.tokens_BT.shape[1])
    target_starts = text.target_starts_B[:, None]
    n_real = text.real_BT.sum(1, keepdim=True)
    length = text.tokens_BT.shape[1]
    source_real = (place < target_starts).expand(-1, length)
    target_real = place < n_real - target_starts
    target = text.tokens_BT.gather(1, (place + target_starts).clamp(max=length - 1))
    source = torch.where(source_real, text.tokens_BT, vocabulary.pad)
    target = torch.where(target_real, target, vocabulary.pad)
    zeros = torch.zeros_like(source)
    return SourceTarget(
        source_BS=source,
        target_BM=target,
        source_documents_BS=zeros,
        target_documents_BM=zeros,
        source_real_BS=source_real,
        target_real_BM=target_real,
    )
