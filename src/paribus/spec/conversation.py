"""A conversation of several turns, and how an architecture reads it: in one sequence, with a prefix
that grows or stays, or with an encoder.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from paribus.errors import SpecError, UnsupportedError
from paribus.masks import (
    DOCUMENT_RULES,
    PREFIX_RULES,
    DocumentsSoFar,
    SequenceLayout,
    appendable,
    leaves,
    stays_in_document,
)
from paribus.spec.architecture import Architecture
from paribus.spec.base import MAX_SIZE
from paribus.spec.reading import load
from paribus.spec.resolved import ResolvedArchitecture

Custom = Literal[
    "one sequence",
    "growing prefix",
    "first prompt as prefix",
    "encode conversation",
    "encode each turn",
]
CUSTOMS: tuple[Custom, ...] = get_args(Custom)
CUSTOM_DESCRIPTIONS: dict[Custom, str] = {
    "one sequence": "prompts and answers stand one after another",
    "growing prefix": "all that stands before the answer is the prefix, seen in both directions",
    "first prompt as prefix": "the prefix stays the first prompt",
    "encode conversation": "the encoder reads the conversation so far, the decoder the answer",
    "encode each turn": "the encoder reads each prompt alone, the decoder all answers, of which the"
    " i-th sees prompts 1 to i",
}


@dataclass(frozen=True)
class Conversation:
    """Turns of equal length: a user's tokens, then those of an answer."""

    n_turns: int = 10
    n_user: int = 64
    n_answer: int = 64

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not 1 <= value <= MAX_SIZE:
                raise SpecError(f"{name} is {value}; use 1 to {MAX_SIZE:,}")

    @property
    def length(self) -> int:
        """Tokens of the whole conversation. No custom reads a longer text."""
        return self.n_turns * (self.n_user + self.n_answer)

    def prompt_length(self, turn: int) -> int:
        """Tokens that stand before the answer of a turn; the first turn is 1."""
        return (turn - 1) * (self.n_user + self.n_answer) + self.n_user


@dataclass(frozen=True, eq=False)
class TurnTexts:
    """The texts of one turn: what a cache holds of them before it, what is read before the first
    token of the answer is chosen, and what was read at the end.

    The last token of an answer is chosen, and read with the next turn.
    """

    turn: int
    before: SequenceLayout
    prompt: SequenceLayout
    end: SequenceLayout
    source_before: SequenceLayout  # of the encoder; empty without one
    source: SequenceLayout
    n_new: int  # tokens that no stack has read before, with the one that starts an answer


def possible_customs(spec: ResolvedArchitecture) -> tuple[Custom, ...]:
    """How an architecture may hold a conversation; UnsupportedError where it cannot answer token
    by token.
    """
    _require_answers(spec)
    if spec.encoder is not None:
        crosses = [block.cross for block in spec.stack.layers if block.cross is not None]
        if any(DocumentsSoFar() in leaves(rule) for rule in crosses):
            return ("encode each turn",)
        return ("encode conversation",)
    if any(leaves(rule) & PREFIX_RULES for rule in spec.stack.masks):
        return ("growing prefix", "first prompt as prefix")
    return ("one sequence",)


def encodes_turns(spec: ResolvedArchitecture) -> bool:
    """Does an encoder read each turn of a conversation alone, and a decoder all answers in one
    text, of which the i-th sees turns 1 to i?
    """
    if spec.encoder is None or not appendable(spec.stack.masks):
        return False
    crosses = [block.cross for block in spec.stack.layers if block.cross is not None]
    is_one_text = not any(leaves(rule) & DOCUMENT_RULES for rule in spec.stack.masks)
    sees_turns = all(rule == DocumentsSoFar() for rule in crosses)
    return is_one_text and sees_turns and all(map(stays_in_document, spec.encoder.masks))


def encode_each_turn(architecture: Architecture) -> Architecture:
    """An encoder-decoder whose encoder reads each turn alone, and whose i-th answer sees prompts 1
    to i: the same parameters under other masks.
    """
    assert architecture.encoder is not None
    changes = {
        "encoder.mask": f"({architecture.encoder.mask}) & same_document",
        "encoder.cross": "documents_so_far",
    }
    return load(architecture.model_dump(), changes=changes)


def require_custom(spec: ResolvedArchitecture, custom: Custom) -> None:
    """SpecError where an architecture cannot hold a conversation so."""
    possible = possible_customs(spec)
    if custom not in possible:
        raise SpecError(
            f"custom is {custom!r}, but this architecture holds a conversation by"
            f" {' or '.join(map(repr, possible))}; use that"
        )


def turn_texts(conversation: Conversation, custom: Custom, turn: int) -> TurnTexts:
    """The texts of a turn under a custom; the first turn is 1."""
    match custom:
        case "encode conversation":
            return _encoded_conversation(conversation, turn)
        case "encode each turn":
            return _encoded_turns(conversation, turn)
        case _:
            return _sequence_texts(conversation, custom, turn)


def _encoded_conversation(conversation: Conversation, turn: int) -> TurnTexts:
    source_before = SequenceLayout(0)
    if turn > 1:
        source_before = _source(conversation.prompt_length(turn - 1))
    return TurnTexts(
        turn=turn,
        before=SequenceLayout(0),
        prompt=SequenceLayout(1),
        end=SequenceLayout(conversation.n_answer),
        source_before=source_before,
        source=_source(conversation.prompt_length(turn)),
        n_new=conversation.n_user + 1 + int(turn > 1),
    )


def _encoded_turns(conversation: Conversation, turn: int) -> TurnTexts:
    """Each turn is a document of its own, in the source and in the text of all answers."""
    n_user, n_answer = conversation.n_user, conversation.n_answer
    n_earlier = (turn - 1) * (n_answer + 1)  # each answer has a token that starts it
    return TurnTexts(
        turn=turn,
        before=_in_documents(max(n_earlier - 1, 0), n_answer + 1),
        prompt=_in_documents(n_earlier + 1, n_answer + 1),
        end=_in_documents(n_earlier + n_answer, n_answer + 1),
        source_before=_in_documents((turn - 1) * n_user, n_user, is_source=True),
        source=_in_documents(turn * n_user, n_user, is_source=True),
        n_new=n_user + 1 + int(turn > 1),
    )


def _in_documents(length: int, n_each: int, is_source: bool = False) -> SequenceLayout:
    """A text of documents of equal length, of which the last may be cut."""
    prefix = length if is_source else 0
    return SequenceLayout(length, prefix, np.arange(length) // n_each)


def all_turn_texts(conversation: Conversation, custom: Custom) -> Iterator[TurnTexts]:
    """The texts of every turn, in order."""
    for turn in range(1, conversation.n_turns + 1):
        yield turn_texts(conversation, custom, turn)


def _sequence_texts(conversation: Conversation, custom: Custom, turn: int) -> TurnTexts:
    nothing, n_new = SequenceLayout(0), conversation.n_user + int(turn > 1)
    length = conversation.prompt_length(turn)
    before = nothing
    if turn > 1:
        earlier = conversation.prompt_length(turn - 1)
        before = SequenceLayout(length - n_new, _prefix(conversation, custom, earlier))
    prefix = _prefix(conversation, custom, length)
    return TurnTexts(
        turn=turn,
        before=before,
        prompt=SequenceLayout(length, prefix),
        end=SequenceLayout(length + conversation.n_answer - 1, prefix),
        source_before=nothing,
        source=nothing,
        n_new=n_new,
    )


def _prefix(conversation: Conversation, custom: Custom, n_prompt: int) -> int:
    match custom:
        case "growing prefix":
            return n_prompt
        case "first prompt as prefix":
            return conversation.n_user
        case _:
            return 0


def _source(length: int) -> SequenceLayout:
    """A source, all of which is its own prefix."""
    return SequenceLayout(length, length)


def _require_answers(spec: ResolvedArchitecture) -> None:
    if not appendable(spec.stack.masks) or _last_layer_looks_ahead(spec):
        masks = ", ".join(dict.fromkeys(map(str, spec.stack.masks)))
        raise UnsupportedError(
            f"the mask {masks} lets a position see later tokens, so it cannot answer token by"
            " token; use a causal, prefix or encoder-decoder architecture"
        )


def _last_layer_looks_ahead(spec: ResolvedArchitecture) -> bool:
    """Does the last layer see a token that is appended? Its keys come from below it, so a cache
    alone does not tell.
    """
    return not appendable((spec.stack.masks[-1], spec.stack.masks[-1]))
