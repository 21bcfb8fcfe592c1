"""A context and a target laid before a model as its training laid them: one row, without padding.

What precedes a document in training precedes a context here: the `end` of the document before it, unless the mask keeps
documents apart. A pair's source has nothing before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from paribus.batch import Batch, Vocabulary
from paribus.errors import SpecError, UnsupportedError
from paribus.objectives import Problem, keeps_documents
from paribus.objectives.framing import Framing, Passage, apart, framing, together
from paribus.spec import Resolved
from paribus.spec.objectives import LastToken, Seq2Seq, SpanCorruption, Weighted

Ids = tuple[int, ...]
_ROWS = torch.zeros(1, dtype=torch.int64)  # numbers of rows, which only dropout asks for


@dataclass(frozen=True)
class Frame:
    """How a part of an objective lays out text, and the signs it puts around it."""

    part: Weighted
    framing: Framing
    vocabulary: Vocabulary
    window: int
    mode: Ids  # before all else
    begins: Ids  # before a document; cut off with its beginning
    gap: Ids  # what stands for the target in the question, and opens the answer

    def room(self, n_target: int) -> int:
        """How many tokens of the context fit, with what begins it."""
        question = self.window - len(self.mode) - len(self.gap)
        answer = len(self.gap) + n_target
        return question - answer if self.framing != "apart" else question if answer <= self.window else 0


def frame(part: Weighted, spec: Resolved, vocabulary: Vocabulary, window: int) -> Frame:
    """The frame of a part for a model; what is no passage has no mode sign, in training either."""
    laid = framing(part.objective, spec.encoder is not None)
    pairs = isinstance(part.objective, Seq2Seq)
    under = part.mode is not None and (laid == "apart" or (laid == "together" and not pairs))
    sentinel = int(vocabulary.sentinel(0)) if isinstance(part.objective, SpanCorruption) else None
    return Frame(
        part,
        laid,
        vocabulary,
        window,
        mode=(vocabulary.modes[part.mode],) if part.mode is not None and under else (),
        begins=() if pairs or keeps_documents(spec) else (vocabulary.begin,),
        gap=() if sentinel is None else (sentinel,),
    )


@dataclass(frozen=True)
class Framed:
    """One item's tokens as they fit: the question, what is to be told, and how much of the context is gone."""

    question: Ids
    target: Ids
    n_cut: int


def fitted(frame: Frame, name: str, context: Sequence[int], target: Sequence[int]) -> Framed:
    """The end of a context with all of its target; UnsupportedError if the target alone is too long."""
    room = frame.room(len(target))
    if room < 1:
        raise UnsupportedError(
            f"item {name} has a target of {len(target)} tokens, which leaves no room for a context in a window of "
            f"{frame.window}; use shorter texts, as with max_bytes, or an arm with a longer window"
        )
    kept = (*frame.begins, *context)[-room:]
    if not kept or not target:
        lacking = "target" if kept else "context"
        raise SpecError(f"item {name} has a {lacking} without a token; give it text that the tokenizer keeps")
    return Framed((*frame.mode, *kept, *frame.gap), tuple(target), max(len(context) - room, 0))


def problems(frame: Frame, framed: Framed) -> Iterator[Problem]:
    """The questions whose nats add up to the item's: one, or one a token where answers are given in place."""
    match frame.framing:
        case "in place":
            yield from _in_place(frame, framed)
        case "apart":
            yield _scored(apart(_passage(frame, framed), _ROWS, False, frame.vocabulary.start), frame)
        case "together":
            yield _scored(together(_passage(frame, framed), _ROWS, False), frame)
        case "shifted":
            posed = together(_passage(frame, framed), _ROWS, False)
            yield replace(posed, inputs=replace(posed.inputs, layout=replace(posed.inputs.layout, prefix=0)))


def _passage(frame: Frame, framed: Framed) -> Passage:
    asked, told = torch.tensor([framed.question]), torch.tensor([(*frame.gap, *framed.target)])
    return Passage(asked, told, torch.zeros_like(asked), torch.zeros_like(told))


def _scored(problem: Problem, frame: Frame) -> Problem:
    """The target alone is scored, not the sentinel before it."""
    weights = problem.weights_BM.clone()
    weights[:, : len(frame.gap)] = 0
    return replace(problem, weights_BM=weights)


def _in_place(frame: Frame, framed: Framed) -> Iterator[Problem]:
    """Each token of the target under a mask; after it all the others, or nothing."""
    whole = (*framed.question, *framed.target)
    ends = isinstance(frame.part.objective, LastToken)
    for place, token in enumerate(framed.target, len(framed.question)):
        after = () if ends else whole[place + 1 :]
        read = torch.tensor([(*whole[:place], frame.vocabulary.mask, *after)])
        at = torch.tensor([[place]])
        inputs = Batch.of(read, prefix=read.shape[1])  # as in training
        yield Problem(inputs, at, torch.tensor([[token]]), torch.ones(1, 1), torch.full_like(at, -1))
