"""A context laid before a model as its training laid one: for scoring a target after it, and for
generating one.

Scoring and generation both use this, so what a model says is what it is scored on. What precedes a
document in training precedes a context here: the `end` of the document before it, unless the mask
keeps documents apart. A pair's source has nothing before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch

from paribus.batch import Batch
from paribus.errors import SpecError, UnsupportedError
from paribus.objectives.answering import answering_component
from paribus.objectives.permission import separates_documents
from paribus.objectives.problem import Problem
from paribus.objectives.problem_layout import (
    ProblemLayout,
    SourceTarget,
    encoder_decoder_problem,
    one_sequence_problem,
    problem_layout,
)
from paribus.objectives.turn_layout import (
    EncodedTurns,
    has_earlier_turns,
    split_turns,
    turns_problem,
)
from paribus.spec import ResolvedArchitecture
from paribus.spec.conversation import encodes_turns
from paribus.spec.objectives import (
    CausalLM,
    LastToken,
    MixtureComponent,
    Objective,
    PrefixLM,
    Seq2Seq,
    SpanCorruption,
)
from paribus.vocabulary import NO_FRAME, TextFrame, Vocabulary

Ids = tuple[int, ...]


class NoRoomError(UnsupportedError):
    """The target of an item leaves no room for its context."""


_ROWS = torch.zeros(1, dtype=torch.int64)  # numbers of rows, which only dropout asks for


@dataclass(frozen=True)
class ItemLayout:
    """How a component of an objective lays out text, and the special tokens it puts around it."""

    component: MixtureComponent
    framing: ProblemLayout
    vocabulary: Vocabulary
    window: int
    mode_token: Ids  # before all else
    document_prefix: Ids  # before a document; cut off with its beginning
    sentinel: Ids  # what stands for the target in the question, and opens the answer
    frame: TextFrame = NO_FRAME  # around a whole text, as an imported tokenizer puts it
    bars_special_tokens: bool = True  # may an answer hold text alone, and what ends it?
    in_turns: bool = False  # is an answer a turn of a conversation?
    encodes_turns: bool = False  # does an encoder read each turn of a conversation alone?

    @property
    def context_is_prefix(self) -> bool:
        """Is a context the prefix of one sequence? Not where each token was predicted from those
        before it.
        """
        return self.framing != "shifted"

    @cached_property
    def question_begin(self) -> Ids:
        """What stands before all else, whatever is cut."""
        return (*self.mode_token, *self.frame.before)

    @cached_property
    def question_end(self) -> Ids:
        """What stands after a context, or in place after the target."""
        return (*self.sentinel, *self.frame.after)

    @cached_property
    def opening(self) -> Ids:
        """What opens an answer, and is not scored."""
        if self.framing == "apart":
            return (*self.frame.before, *self.sentinel)
        return self.sentinel

    @property
    def end_tokens(self) -> Ids:
        """What ends an answer: eos, after a hidden span the sentinel of the next one, and in a
        conversation the end of the turn.
        """
        if self.in_turns:
            return (self.vocabulary.eos, self.vocabulary.end_of_turn)
        if self.sentinel and self.vocabulary.n_sentinels > 1:
            return (self.vocabulary.eos, int(self.vocabulary.sentinel(1)))
        return (self.vocabulary.eos,)

    def encoded_turns(self, inputs: Sequence[int]) -> EncodedTurns:
        """What an encoder and a decoder read of a context that is laid: several turns where each
        is encoded alone, else one.
        """
        if self.encodes_turns:
            return split_turns(inputs, self.vocabulary)
        return EncodedTurns((tuple(inputs),), ((),))

    def shares_window(self, context: Sequence[int]) -> bool:
        """Do a context and its answer lie in one window? Also where a decoder reads the answers of
        earlier turns.
        """
        if self.framing != "apart":
            return True
        return self.encodes_turns and has_earlier_turns(context, self.vocabulary)

    def context_room(self, n_target: int, context: Sequence[int] = ()) -> int:
        """How many tokens of a context fit, with what begins it."""
        question = self.window - len(self.question_begin) - len(self.question_end)
        answer = len(self.opening) + n_target
        if self.shares_window(context):
            return question - answer
        if answer <= self.window:
            return question
        return 0

    def needed_window(self, n_target: int, context: Sequence[int]) -> int:
        """The shortest window that holds a context whole, beside its target or apart from it."""
        question = len(self.question_begin) + len(context) + len(self.question_end)
        answer = len(self.opening) + n_target
        if self.shares_window(context):
            return question + answer
        return max(question, answer)


def item_layout(
    component: MixtureComponent, spec: ResolvedArchitecture, vocabulary: Vocabulary, window: int
) -> ItemLayout:
    """How a component lays out items for a model; mode tokens stand where they do in training."""
    framing = problem_layout(component.objective, spec.encoder is not None)
    pairs = isinstance(component.objective, Seq2Seq)
    has_mode = component.mode is not None and (
        framing == "apart" or (framing == "together" and not pairs)
    )
    mode_token = document_prefix = sentinel = ()
    frame = NO_FRAME
    if component.mode is not None and has_mode:
        mode_token = (vocabulary.mode_tokens[component.mode],)
    if vocabulary.frame is not None and framing in ("apart", "in place"):
        frame = vocabulary.frame
    elif vocabulary.frame is not None and vocabulary.frame.before:
        document_prefix = vocabulary.frame.before
    elif not pairs and not separates_documents(spec) and vocabulary.has_bos:
        document_prefix = (vocabulary.bos,)
    if isinstance(component.objective, SpanCorruption):
        sentinel = (int(vocabulary.sentinel(0)),)
    return ItemLayout(
        component=component,
        framing=framing,
        vocabulary=vocabulary,
        window=window,
        mode_token=mode_token,
        document_prefix=document_prefix,
        sentinel=sentinel,
        frame=frame,
        encodes_turns=framing == "apart" and encodes_turns(spec),
    )


def plain_layout(
    spec: ResolvedArchitecture, vocabulary: Vocabulary, window: int, context_is_prefix: bool = True
) -> ItemLayout:
    """A layout that adds no token of ours: a context as it is, then what follows."""
    if spec.encoder is not None or context_is_prefix:
        component = MixtureComponent(objective=PrefixLM())
    else:
        component = MixtureComponent(objective=CausalLM())
    return ItemLayout(
        component=component,
        framing=problem_layout(component.objective, spec.encoder is not None),
        vocabulary=vocabulary,
        window=window,
        mode_token=(),
        document_prefix=(),
        sentinel=(),
    )


def generation_layout(
    objective: Objective | None, spec: ResolvedArchitecture, vocabulary: Vocabulary, window: int
) -> ItemLayout:
    """How a model is asked to go on from a context: as it is scored. A model that never learnt to
    go on, or of which nobody knows what it learnt, is given the context as it is.
    """
    if objective is None:
        return plain_layout(spec, vocabulary, window)
    try:
        component = answering_component(objective, "likelihood")
    except SpecError:  # what it says means little, framed or not
        return plain_layout(spec, vocabulary, window)
    return item_layout(component, spec, vocabulary, window)


@dataclass(frozen=True)
class LaidItem:
    """One item's tokens as they fit: the question, what is to be told, and how much of the
    context is gone.
    """

    inputs: Ids
    target: Ids
    n_truncated: int


def lay_item(
    layout: ItemLayout, name: str, context: Sequence[int], target: Sequence[int]
) -> LaidItem:
    """The end of a context with all of its target; NoRoomError if the target alone is too long."""
    room = layout.context_room(len(target), context)
    if room < 1:
        raise NoRoomError(
            f"item {name} has a target of {len(target)} tokens, which leaves no room for a context"
            f" in a window of {layout.window}; use shorter texts, as with max_bytes, or an arm with"
            " a longer window"
        )
    end = (*layout.document_prefix, *context)[-room:]
    if not end or not target:
        lacking = "target" if end else "context"
        raise SpecError(
            f"item {name} has a {lacking} without a token; give it text that the tokenizer keeps"
        )
    n_truncated = max(len(context) - room, 0)
    return LaidItem(_question(layout, end), tuple(target), n_truncated)


def _question(layout: ItemLayout, context: Ids) -> Ids:
    """A context with what stands around it; in place, the end of a text follows its target."""
    if layout.framing == "in place":
        return (*layout.question_begin, *context)
    return (*layout.question_begin, *context, *layout.question_end)


@dataclass(frozen=True)
class LaidContext:
    """A context's tokens as they fit beside an answer that is yet to be said, and how much of it
    is gone.
    """

    inputs: Ids
    n_truncated: int


def lay_context(layout: ItemLayout, context: Sequence[int], n_tokens: int) -> LaidContext:
    """The end of a context with room for an answer of `n_tokens`.

    In one sequence the two share the window. Where both do not fit, the context keeps half of it,
    and the answer has fewer tokens.
    """
    n_own = len(layout.question_begin) + len(layout.question_end)
    if not layout.shares_window(context):
        room = layout.window - n_own
    else:
        shared = layout.window - n_own - len(layout.opening)
        if layout.framing != "in place":
            shared += 1  # the last token is said, and not read
        room = max(shared - n_tokens, shared // 2)
    whole = (*layout.document_prefix, *context)
    end = whole[-room:]
    if room < 1 or not end:
        raise SpecError(
            f"a context of {len(context)} tokens leaves nothing to go on from in a window of"
            f" {layout.window}; give text that the tokenizer keeps, or a model with a longer window"
        )
    return LaidContext(_question(layout, end), max(len(context) - room, 0))


def item_problems(layout: ItemLayout, item: LaidItem) -> Iterator[Problem]:
    """The questions whose nats add up to the item's: one, or one a token where answers are
    given in place.
    """
    match layout.framing:
        case "in place":
            yield from _in_place_problems(layout, item)
        case "apart" if len(layout.encoded_turns(item.inputs).sources) > 1:
            turns = layout.encoded_turns(item.inputs)
            start = layout.vocabulary.decoder_start
            yield turns_problem(turns, (*layout.opening, *item.target), len(item.target), start)
        case "apart":
            yield _score_target_only(
                encoder_decoder_problem(
                    _passage(layout, item), _ROWS, False, layout.vocabulary.decoder_start
                ),
                layout,
            )
        case "together":
            yield _score_target_only(
                one_sequence_problem(_passage(layout, item), _ROWS, False), layout
            )
        case "shifted":
            problem = one_sequence_problem(_passage(layout, item), _ROWS, False)
            yield replace(
                problem,
                inputs=replace(problem.inputs, layout=replace(problem.inputs.layout, prefix=0)),
            )


def _passage(layout: ItemLayout, item: LaidItem) -> SourceTarget:
    source = torch.tensor([item.inputs])
    target = torch.tensor([(*layout.opening, *item.target)])
    return SourceTarget(
        source_BS=source,
        target_BM=target,
        source_documents_BS=torch.zeros_like(source),
        target_documents_BM=torch.zeros_like(target),
    )


def _score_target_only(problem: Problem, layout: ItemLayout) -> Problem:
    """The target alone is scored, not what opens the answer."""
    weights = problem.weights_BM.clone()
    weights[:, : len(layout.opening)] = 0
    return replace(problem, weights_BM=weights)


def _in_place_problems(layout: ItemLayout, item: LaidItem) -> Iterator[Problem]:
    """Each token of the target under a mask; after it all the others, or nothing."""
    whole = (*item.inputs, *item.target, *layout.frame.after)
    ends = isinstance(layout.component.objective, LastToken)
    for place, token in enumerate(item.target, len(item.inputs)):
        after = () if ends else whole[place + 1 :]
        tokens_BT = torch.tensor([(*whole[:place], layout.vocabulary.mask, *after)])
        at = torch.tensor([[place]])
        inputs = Batch.of(tokens_BT, prefix=tokens_BT.shape[1])  # as in training
        yield Problem(
            inputs=inputs,
            scored_positions_BM=at,
            targets_BM=torch.tensor([[token]]),
            weights_BM=torch.ones(1, 1),
            target_positions_BM=torch.full_like(at, -1),
        )
