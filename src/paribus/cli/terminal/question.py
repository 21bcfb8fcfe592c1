"""One example of an objective, posed as training poses it, on a text of ours whose words are its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor

from paribus.batch import N_SIGNS, Batch, Reading, Vocabulary
from paribus.errors import SpecError
from paribus.objectives import Problem, permit, pose
from paribus.objectives.framing import Framing, framing
from paribus.spec import load, presets, resolve
from paribus.spec.objectives import Mixture, Objective, Seq2Seq, Weighted, parts

TEXT = (
    "the mask says who may see whom and from it alone follow the picture the price and the leak a causal mask shows "
    "the past a prefix mask the whole question a full mask everything but what is seen cannot be asked"
)
PAIR = ("the dog sees a cat", "le chien voit un chat")
SEED = 14  # one whose draws show everything: a token masked, one replaced, one left; a span within, one at the end


@dataclass(frozen=True)
class Example:
    """What is read, and where an answer is asked; the source is what an encoder reads."""

    part: Weighted
    frame: Framing
    reads: tuple[str, ...]
    prefix: int
    asked: dict[int, str]  # position → answer
    source: tuple[str, ...] | None


def examples(objective: Objective) -> Iterator[Example]:
    """Each part of an objective posed to one stack and, where that has a framing, to an encoder-decoder."""
    for part in parts(objective):
        for has_encoder in (False, True):
            try:
                frame = framing(part.objective, has_encoder)
            except SpecError:
                continue
            yield _example(part, frame, has_encoder)


def verdicts(objective: Objective) -> dict[str, str | None]:
    """Every preset, and why it cannot be trained with the objective; None where it can."""
    return {name: _refusal(objective, name, len(TEXT.split())) for name in presets()}


def _refusal(objective: Objective, preset: str, length: int) -> str | None:
    try:
        permit(objective, resolve(load(preset)), length)
    except SpecError as fault:
        return fault.problems[0]
    return None


def _example(part: Weighted, frame: Framing, has_encoder: bool) -> Example:
    reading = _pair() if isinstance(part.objective, Seq2Seq) else _text()
    problem = pose(Mixture(parts=(part,)), reading, _vocabulary(), SEED, has_encoder, documents=False)
    inputs = problem.inputs
    prefix = inputs.layout.prefix if isinstance(inputs.layout.prefix, int) else int(inputs.layout.prefix[0])
    source = None if inputs.source is None else _named(_real(inputs.source))
    return Example(part, frame, _named(_real(inputs)), prefix, _asked(problem), source)


def _asked(problem: Problem) -> dict[int, str]:
    weighted = problem.weights_BM[0] > 0
    return dict(zip(problem.at_BM[0][weighted].tolist(), _named(problem.targets_BM[0][weighted]), strict=True))


def _real(batch: Batch) -> Tensor:
    """The tokens of the first row without its padding."""
    tokens, real = batch.tokens_BT[0], batch.layout.real_BT
    return tokens if real is None else tokens[real[0]]


def _named(ids: Tensor) -> tuple[str, ...]:
    names = (*_words(), *_vocabulary().signs)
    return tuple(names[number] for number in ids.tolist())


def _text() -> Reading:
    return _reading([*_ids(TEXT), _vocabulary().end])


def _pair() -> Reading:
    """Source, target, end and one place of padding."""
    source, target = map(_ids, PAIR)
    reading = _reading([*source, *target, _vocabulary().end, _vocabulary().pad])
    real = reading.tokens_BT != _vocabulary().pad
    return replace(reading, real_BT=real, targets_from_B=torch.tensor([len(source)]))


def _reading(ids: list[int]) -> Reading:
    tokens = torch.tensor([ids])
    nothing = torch.zeros_like(tokens)
    return Reading(0, torch.zeros(1, dtype=torch.int64), tokens, nothing, nothing)


def _ids(text: str) -> list[int]:
    return [_words().index(word) for word in text.split()]


@cache
def _words() -> tuple[str, ...]:
    return tuple(dict.fromkeys(" ".join((TEXT, *PAIR)).split()))


@cache
def _vocabulary() -> Vocabulary:
    return Vocabulary(len(_words()), torch.zeros(len(_words()) + N_SIGNS, dtype=torch.int64))
