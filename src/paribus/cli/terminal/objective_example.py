"""One example of an objective, posed as training poses it, on a text of ours whose words are
its tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from paribus.batch import N_SPECIAL_TOKENS, Batch, TextBatch, Vocabulary
from paribus.errors import SpecError
from paribus.objectives import Problem, pose_problem, require_permitted
from paribus.objectives.problem_layout import ProblemLayout, problem_layout
from paribus.spec import load, presets, resolve
from paribus.spec.objectives import Mixture, MixtureComponent, Objective, Seq2Seq, components_of

TEXT = (
    "the mask says who may see whom and from it alone follow the picture the price and the leak a"
    " causal mask shows the past a prefix mask the whole question a full mask everything but what"
    " is seen cannot be asked"
)
PAIR = ("the dog sees a cat", "le chien voit un chat")
# one whose draws show everything: a token masked, one replaced, one left; a span within, one at the
# end
SEED = 14


@dataclass(frozen=True)
class ObjectiveExample:
    """What is read, and where an answer is asked; the source is what an encoder reads."""

    component: MixtureComponent
    frame: ProblemLayout
    reads: tuple[str, ...]
    prefix: int
    answers: dict[int, str]  # position → answer
    source: tuple[str, ...] | None


def objective_examples(objective: Objective) -> Iterator[ObjectiveExample]:
    """Each part of an objective posed to one stack and, where that has a framing, to an
    encoder-decoder.
    """
    for part in components_of(objective):
        for has_encoder in (False, True):
            try:
                frame = problem_layout(part.objective, has_encoder)
            except SpecError:
                continue
            yield _make_example(part, frame, has_encoder)


def preset_refusals(objective: Objective) -> dict[str, str | None]:
    """Every preset, and why it cannot be trained with the objective; None where it can."""
    return {name: _refusal(objective, name, len(TEXT.split())) for name in presets()}


def _refusal(objective: Objective, preset: str, length: int) -> str | None:
    try:
        require_permitted(objective, resolve(load(preset)), length)
    except SpecError as fault:
        return fault.problems[0]
    return None


def _make_example(
    component: MixtureComponent, frame: ProblemLayout, has_encoder: bool
) -> ObjectiveExample:
    if isinstance(component.objective, Seq2Seq):
        reading = _pair_batch()
    else:
        reading = _text_batch()
    problem = pose_problem(
        Mixture(components=(component,)),
        reading,
        _vocabulary(),
        SEED,
        has_encoder,
        separates_documents=False,
    )
    inputs = problem.inputs
    if isinstance(inputs.layout.prefix, int):
        prefix = inputs.layout.prefix
    else:
        prefix = int(inputs.layout.prefix[0])
    if inputs.source is None:
        source = None
    else:
        source = _token_names(_real_tokens(inputs.source))
    return ObjectiveExample(
        component=component,
        frame=frame,
        reads=_token_names(_real_tokens(inputs)),
        prefix=prefix,
        answers=_answers_by_position(problem),
        source=source,
    )


def _answers_by_position(problem: Problem) -> dict[int, str]:
    weighted = problem.weights_BM[0] > 0
    return dict(
        zip(
            problem.scored_positions_BM[0][weighted].tolist(),
            _token_names(problem.targets_BM[0][weighted]),
            strict=True,
        )
    )


def _real_tokens(batch: Batch) -> Tensor:
    """The tokens of the first row without its padding."""
    tokens, real = batch.tokens_BT[0], batch.layout.real_BT
    if real is None:
        return tokens
    return tokens[real[0]]


def _token_names(ids: Tensor) -> tuple[str, ...]:
    names = (*_word_list(), *_vocabulary().special_tokens)
    return tuple(names[number] for number in ids.tolist())


def _text_batch() -> TextBatch:
    return _batch_of_ids([*_word_ids(TEXT), _vocabulary().eos])


def _pair_batch() -> TextBatch:
    """Source, target, end and one place of padding."""
    source, target = map(_word_ids, PAIR)
    reading = _batch_of_ids([*source, *target, _vocabulary().eos, _vocabulary().pad])
    real = reading.tokens_BT != _vocabulary().pad
    return replace(reading, real_BT=real, target_starts_B=torch.tensor([len(source)]))


def _batch_of_ids(ids: list[int]) -> TextBatch:
    tokens = torch.tensor([ids])
    nothing = torch.zeros_like(tokens)
    return TextBatch(
        k=0,
        rows_B=torch.zeros(1, dtype=torch.int64),
        tokens_BT=tokens,
        documents_BT=nothing,
        sentences_BT=nothing,
    )


def _word_ids(text: str) -> list[int]:
    return [_word_list().index(word) for word in text.split()]


@cache
def _word_list() -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join((TEXT, *PAIR)).split()))


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(
        len(_word_list()), torch.zeros(len(_word_list()) + N_SPECIAL_TOKENS, dtype=torch.int64)
    )
