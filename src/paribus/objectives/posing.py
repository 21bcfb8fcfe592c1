"""From text to a problem. Every draw is keyed by (seed, k) or (seed, k, row): never by rank or
micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from paribus.batch import Batch, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives.label_problem import label_problem
from paribus.objectives.preference import both_answers, interleaved
from paribus.objectives.problem import Problem
from paribus.objectives.problem_layout import (
    document_positions,
    encoder_decoder_problem,
    one_sequence_problem,
    problem_layout,
)
from paribus.objectives.source_target import draw_split, possible_splits, source_and_target
from paribus.objectives.turn_layout import turn_pair
from paribus.runtime import numpy_generator, random_uint64
from paribus.spec.objectives import (
    UL2,
    CausalLM,
    LastToken,
    MaskedLM,
    Mixture,
    MixtureComponent,
    Objective,
    Preference,
    PrefixLM,
    ReverseLM,
    Seq2Seq,
    SimpleObjective,
    TextLabels,
    WordTags,
    components_of,
)


def pose_problem(
    objective: Objective,
    text: TextBatch,
    vocabulary: Vocabulary,
    seed: int,
    has_encoder: bool,
    separates_documents: bool,
    encodes_turns: bool = False,
) -> Problem:
    """The problem that an objective makes of a text; `separates_documents` says whether the mask
    does, and `encodes_turns` whether an encoder reads each turn of a conversation alone.
    """
    if isinstance(objective, Preference):
        one_answer = partial(
            pose_problem,
            Seq2Seq(),
            vocabulary=vocabulary,
            seed=seed,
            has_encoder=has_encoder,
            separates_documents=separates_documents,
            encodes_turns=encodes_turns,
        )
        chosen, rejected = map(one_answer, both_answers(text))
        if objective.swapped:
            chosen, rejected = rejected, chosen
        return interleaved(chosen, rejected)
    component = draw_component(objective, seed, text.k)
    framing = problem_layout(component.objective, has_encoder)
    _require_matching_text(component.objective, text)
    match component.objective:
        case TextLabels() | WordTags() as head:
            return label_problem(head, text, vocabulary, separates_documents)
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
            if isinstance(other, Seq2Seq) and encodes_turns:
                pair = turn_pair(text, vocabulary)
                return encoder_decoder_problem(
                    pair, text.rows_B, separates_documents, vocabulary.decoder_start
                )
            if component.mode is None:
                mode = None
            else:
                mode = vocabulary.mode_tokens[component.mode]
            passage = source_and_target(other, text, vocabulary, seed, framing == "together", mode)
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


def possible_draws(objective: Objective, length: int) -> list[tuple[float, Objective]]:
    """Each component and each split that a step over rows of this length may draw, as an objective
    that draws it alone, with how often it is drawn. An objective of which all steps pose the same
    is its only one.
    """
    if not isinstance(objective, Mixture | UL2):
        return list(_possible_splits(objective, length))
    components = components_of(objective)
    whole = sum(component.weight for component in components)
    draws: list[tuple[float, Objective]] = []
    for component in components:
        for share, own in _possible_splits(component.objective, length):
            one = component.model_copy(update={"objective": own})
            draws.append((component.weight / whole * share, Mixture(components=(one,))))
    return draws


def _possible_splits(objective: Objective, length: int) -> Iterator[tuple[float, Objective]]:
    if not isinstance(objective, PrefixLM | LastToken):
        yield 1.0, objective
        return
    splits = possible_splits(objective, length)
    for split in splits:
        place = {"least": split / length, "most": split / length, "grid": length}
        yield 1 / len(splits), objective.model_copy(update=place)


def _require_matching_text(objective: SimpleObjective, text: TextBatch) -> None:
    labelled = text.labels_BM is not None
    if labelled != isinstance(objective, TextLabels | WordTags):
        needs, has = ("labelled texts", "none") if not labelled else ("no labels", "labelled texts")
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which needs {needs}, but the corpus has {has};"
            " use 'labels' or 'tags' with sources of labelled texts"
        )
    pairs = text.target_starts_B is not None
    if labelled:
        return
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
    split = draw_split(objective, text, seed)
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
