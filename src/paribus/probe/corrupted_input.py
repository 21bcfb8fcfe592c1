"""One question of a corrupted text by itself: everything else of the text is plain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from paribus.errors import SpecError
from paribus.objectives import Problem
from paribus.objectives.answering import mixture_of_one
from paribus.objectives.problem_layout import (
    SourceTarget,
    encoder_decoder_problem,
    one_sequence_problem,
    problem_layout,
)
from paribus.probe.posed_texts import posed_texts
from paribus.probe.subject import ProbedModel
from paribus.probe.texts import ProbeTexts
from paribus.spec.objectives import (
    MaskedLM,
    MixtureComponent,
    Objective,
    SpanCorruption,
    components_of,
)

_ROWS = torch.zeros(1, dtype=torch.int64)


@dataclass(frozen=True, eq=False)
class CorruptedText:
    """One text as training poses it, and each of its questions with nothing else hidden. The same
    tokens are scored in both.
    """

    corrupted: Problem
    plain: Sequence[Problem]


def corrupting_components(objective: Objective) -> tuple[MixtureComponent, ...]:
    """The components that hide tokens inside of a text; SpecError where there is none."""
    found = []
    for component in components_of(objective):
        own = component.objective
        if isinstance(own, SpanCorruption) or (isinstance(own, MaskedLM) and own.masked > 0):
            found.append(component)
    if not found:
        raise SpecError(
            f"objective.kind is {objective.kind!r}, which hides nothing inside of a text, so"
            " training and use read alike; probe a run of 'masked' or 'spans'"
        )
    return tuple(found)


def describe_component(component: MixtureComponent) -> str:
    """What a component hides."""
    own = component.objective
    if isinstance(own, SpanCorruption):
        return f"spans of {own.mean_span:g}, rate {own.rate:g}"
    assert isinstance(own, MaskedLM)
    return f"masked, rate {own.rate:g}"


def corrupted_text(
    subject: ProbedModel,
    text: ProbeTexts,
    component: MixtureComponent,
    n_questions: int,
    seed: int,
    k: int,
) -> CorruptedText:
    """A text as a component poses it in step k, of which at most so many questions are asked."""
    posed = posed_texts(subject, text, mixture_of_one(component), seed, k)
    if isinstance(component.objective, MaskedLM):
        return _masked_text(subject, text, posed, n_questions)
    return _spans_text(subject, component, posed, n_questions)


def _masked_text(
    subject: ProbedModel, text: ProbeTexts, posed: Problem, n_questions: int
) -> CorruptedText:
    """Tokens under a mask, each under the only mask. Those that were replaced or left are not
    asked for.
    """
    mask = subject.layout.vocabulary.mask
    at_M = posed.scored_positions_BM[0]
    is_masked_M = posed.inputs.tokens_BT[0, at_M] == mask
    chosen = _spread(is_masked_M.nonzero()[:, 0].tolist(), n_questions)
    whole_BT = text.tokens_BT[:, len(subject.layout.question_begin) :].to(subject.device)
    plain = []
    for number in chosen:
        tokens_BT = whole_BT.clone()
        tokens_BT[0, at_M[number]] = mask
        own = replace(posed, inputs=replace(posed.inputs, tokens_BT=tokens_BT))
        plain.append(_asking(own, [number]))
    return CorruptedText(_asking(posed, chosen), plain)


def _spans_text(
    subject: ProbedModel, component: MixtureComponent, posed: Problem, n_questions: int
) -> CorruptedText:
    """Spans, each as the only one. Sentinels and the end are not scored."""
    vocabulary = subject.layout.vocabulary
    n_sentinels = vocabulary.n_sentinels
    numbers = {int(vocabulary.sentinel(number)): number for number in range(n_sentinels)}
    target = posed.targets_BM[0].tolist()
    starts = [place for place, token in enumerate(target) if token in numbers]
    ends = [*starts[1:], len(target) - 1]
    spans = [target[start + 1 : end] for start, end in zip(starts, ends, strict=True)]
    source = _source_tokens(posed)
    chosen = _spread(list(range(len(spans))), n_questions)
    plain = []
    for number in chosen:
        own = _only_span(source, spans, number, numbers)
        problem = _span_problem(
            subject, component, own, [int(vocabulary.sentinel(0)), *spans[number]]
        )
        plain.append(_asking(problem, range(1, 1 + len(spans[number]))))
    asked = [place for number in chosen for place in range(starts[number] + 1, ends[number])]
    return CorruptedText(_asking(posed, asked), plain)


def _source_tokens(posed: Problem) -> list[int]:
    """What is read before the first sentinel of the target."""
    if posed.inputs.source is not None:
        return posed.inputs.source.tokens_BT[0].tolist()
    n_target = posed.targets_BM.shape[1]
    return posed.inputs.tokens_BT[0, :-n_target].tolist()


def _only_span(
    source: Sequence[int], spans: Sequence[Sequence[int]], number: int, numbers: dict[int, int]
) -> list[int]:
    """A source in which all other spans stand as they were."""
    first = next(token for token, own in numbers.items() if own == 0)
    tokens: list[int] = []
    for token in source:
        if token not in numbers:
            tokens.append(token)
        elif numbers[token] == number:
            tokens.append(first)
        else:
            tokens += spans[numbers[token]]
    return tokens


def _span_problem(
    subject: ProbedModel, component: MixtureComponent, source: list[int], target: list[int]
) -> Problem:
    source_BS, target_BM = torch.tensor([source]), torch.tensor([target])
    pair = SourceTarget(
        source_BS=source_BS,
        target_BM=target_BM,
        source_documents_BS=torch.zeros_like(source_BS),
        target_documents_BM=torch.zeros_like(target_BM),
    )
    if problem_layout(component.objective, subject.spec.encoder is not None) == "together":
        problem = one_sequence_problem(pair, _ROWS, False)
    else:
        start = subject.layout.vocabulary.decoder_start
        problem = encoder_decoder_problem(pair, _ROWS, False, start)
    return problem.to(subject.device)


def _asking(problem: Problem, places: Sequence[int]) -> Problem:
    """A problem of one row of which these targets alone are scored."""
    weights_BM = torch.zeros_like(problem.weights_BM)
    weights_BM[0, list(places)] = 1
    return replace(problem, weights_BM=weights_BM)


def _spread(places: Sequence[int], n: int) -> list[int]:
    """At most n of some places, spread evenly."""
    if len(places) <= n:
        return list(places)
    return [places[len(places) * number // n] for number in range(n)]
