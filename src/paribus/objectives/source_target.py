"""From text to source and target: where it is split, which spans are hidden, how a pair is cut."""

from __future__ import annotations

import torch
from torch import Tensor

from paribus.batch import N_SENTINELS, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives.problem_layout import SourceTarget
from paribus.objectives.spans import SpanPlan, corrupt_spans, draw_spans, plan_spans
from paribus.runtime import numpy_generator, numpy_generator_per_name
from paribus.spec.objectives import (
    Continuation,
    LastToken,
    PrefixLM,
    SimpleObjective,
    SpanCorruption,
)


def draw_split(objective: PrefixLM | LastToken, text: TextBatch, seed: int) -> int:
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


def source_and_target(
    objective: SimpleObjective,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    one_sequence: bool,
    mode: int | None,
) -> SourceTarget:
    match objective:
        case PrefixLM() as prefix:
            passage = _cut_text(text, draw_split(prefix, text, seed), 0)
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
    _require_sentinels(plan, length, N_SENTINELS)
    return plan


def _require_sentinels(plan: SpanPlan, length: int, n_sentinels: int) -> None:
    if plan.n_spans > n_sentinels:
        raise SpecError(
            f"objective 'spans' cuts {length} tokens into {plan.n_spans} spans, but there are"
            f" {n_sentinels} sentinels; use a longer mean_span, a lower rate or a shorter length"
        )


def _corrupt_text(
    plan: SpanPlan, text: TextBatch, vocabulary: Vocabulary, seed: int
) -> SourceTarget:
    _require_sentinels(plan, text.tokens_BT.shape[1], vocabulary.n_sentinels)
    tokens, documents = (values[:, : plan.n_text] for values in (text.tokens_BT, text.documents_BT))
    spans = draw_spans(
        plan, numpy_generator_per_name(seed, "spans", text.k, last_names=text.rows_B.tolist())
    )
    sentinels = vocabulary.sentinel(spans.span_numbers_BT)
    assert isinstance(sentinels, Tensor)
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
