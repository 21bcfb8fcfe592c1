"""A source that grows: which of its tokens an encoder reads again, and which tokens of a text see
the same of it as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paribus.masks.assignment import head_rules
from paribus.masks.dense import BoolArray, SequenceLayout, dense_mask
from paribus.masks.growth import needed_by_layer, with_missing
from paribus.masks.reach import appendable, unchanged_states
from paribus.masks.rules import And, CompositeRule, Full, Or, Rule, SameDocument


@dataclass(frozen=True, eq=False)
class SourcePlan:
    """What an encoder reads when a source grows, what it keeps of its own keys, and whose states
    are as before.
    """

    is_read: BoolArray  # [position]: goes through the encoder, new or once more
    is_kept: BoolArray  # [layer, position]
    is_unchanged: BoolArray  # [old position]: so are its keys for cross-attention

    @property
    def n_read(self) -> int:
        return int(np.count_nonzero(self.is_read))


@dataclass(frozen=True, eq=False)
class TextBesideSource:
    """How a text lies, and how the source that it is read beside."""

    text: SequenceLayout
    source: SequenceLayout


def keeps_source(stack: Sequence[Rule]) -> bool:
    """Do all states of a source stay as they are while it grows?

    If so, the encoder's own keys are kept, and only new tokens are read. If not, they would be of
    no use, and none is kept. All of a source is its prefix, which grows with it.
    """
    return appendable((*stack, Full()), prefix_grows=True)


def keeps_earlier_documents(
    stack: Sequence[Rule], encoder: Sequence[Rule], cross: Sequence[Rule | None]
) -> bool:
    """Does all that was read of a text and of its source stay as it was when both get a new
    document, whatever it says?
    """
    if not appendable(stack) or not (keeps_source(encoder) or all(map(stays_in_document, encoder))):
        return False
    one, two = (SequenceLayout(n, n, np.arange(n)) for n in (1, 2))
    before, after = TextBesideSource(one, one), TextBesideSource(two, two)
    return bool(same_source_views(cross, before, after, np.ones(1, bool)).all())


def plan_source_growth(
    stack: Sequence[Rule], old: SequenceLayout, new: SequenceLayout
) -> SourcePlan:
    """What an encoder reads when a source grows. `old` may be empty, and `new` as long as it.

    A token is read if it is new, if its last state changes, or if a token that is read sees a key
    of it that is not kept.
    """
    assert old.length <= new.length
    is_read = np.arange(new.length) >= old.length
    if keeps_source(stack):
        return SourcePlan(is_read, needed_by_layer(stack, new), np.ones(old.length, bool))
    is_kept, is_unchanged = np.zeros((len(stack), new.length), bool), np.ones(old.length, bool)
    if old.length in (0, new.length):
        return SourcePlan(is_read, is_kept, is_unchanged)
    first = _first_that_grows(stack, old, new)
    before, after = _from(old, first), _from(new, first)
    is_unchanged[first:] = unchanged_states(stack, before, after)[-1]
    is_read[: old.length] = ~is_unchanged
    nothing = [np.zeros((len(head_rules(rule)), after.length), bool) for rule in stack]
    is_read[first:] = with_missing(stack, after, is_read[first:], nothing, nothing)
    return SourcePlan(is_read, is_kept, is_unchanged)


def same_source_views(
    cross: Sequence[Rule | None],
    old: TextBesideSource,
    new: TextBesideSource,
    is_unchanged: BoolArray,
) -> BoolArray:
    """Which tokens of a text see the same of its source as before: [layer, old position].

    `cross` is the rule of each layer, or None. It asks for documents alone, so one token of each
    document stands for all.
    """
    n_old = old.text.length
    if n_old == 0:
        return np.ones((len(cross), 0), bool)
    pairs = np.stack([_documents(old.text), _documents(new.text)[:n_old]], 1)
    pairs, inverse = np.unique(pairs, axis=0, return_inverse=True)
    before = SequenceLayout(len(pairs), documents=pairs[:, 0])
    after = SequenceLayout(len(pairs), documents=pairs[:, 1])
    same: dict[Rule | None, BoolArray] = {None: np.ones(n_old, bool)}
    for rule in dict.fromkeys(cross):
        if rule is None:
            continue
        is_same = np.ones(len(pairs), bool)
        for part in head_rules(rule):
            seen = dense_mask(part, before, old.source)
            seen_now = dense_mask(part, after, new.source)
            is_changed = (seen != seen_now[:, : old.source.length]) | (seen & ~is_unchanged)
            is_same &= ~is_changed.any(1) & ~seen_now[:, old.source.length :].any(1)
        same[rule] = is_same[inverse.reshape(-1)]
    return np.stack([same[rule] for rule in cross])


def _documents(layout: SequenceLayout) -> np.ndarray:
    if layout.documents is None:
        return np.zeros(layout.length, np.int64)
    return layout.documents


def _first_that_grows(stack: Sequence[Rule], old: SequenceLayout, new: SequenceLayout) -> int:
    """Where the part begins that growth can change: what comes before is in other documents, which
    no token sees from outside.
    """
    if old.documents is None or new.documents is None or not all(map(stays_in_document, stack)):
        return 0
    is_kept = np.array_equal(old.documents, new.documents[: old.length])
    if not is_kept or (np.diff(new.documents) < 0).any():
        return 0
    return int(np.searchsorted(new.documents, new.documents[old.length]))


def stays_in_document(rule: Rule) -> bool:
    """Does a rule show a token its own document alone?"""
    match rule:
        case SameDocument():
            return True
        case And(left, right):
            return stays_in_document(left) or stays_in_document(right)
        case Or(left, right):
            return stays_in_document(left) and stays_in_document(right)
        case CompositeRule(rules):
            return all(map(stays_in_document, rules))
        case _:
            return False


def _from(layout: SequenceLayout, first: int) -> SequenceLayout:
    """A layout without its first positions; rules look at distances alone."""
    documents = None if layout.documents is None else layout.documents[first:]
    return replace(
        layout,
        length=layout.length - first,
        prefix=max(layout.prefix - first, 0),
        documents=documents,
        real=None if layout.real is None else layout.real[first:],
    )
