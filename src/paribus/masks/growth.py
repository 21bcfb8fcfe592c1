"""What a cache does when a text grows: which keys a later token can still see, and which tokens are
read again.

A key is kept if it is valid (`valid_cache`) and needed (`needed_later`). All else is read again,
never approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.assignment import head_rules
from paribus.masks.dense import BoolArray, SequenceLayout, visible_rows
from paribus.masks.reach import appendable, valid_cache
from paribus.masks.rules import PREFIX_RULES, And, Full, Or, Rule, Strided
from paribus.masks.simplification import leaves

MAX_PERIOD = 4096  # of strides that are told apart; longer ones free nothing


@dataclass(frozen=True, eq=False)
class GrowthPlan:
    """What is read when a text grows, and what the cache holds afterwards."""

    is_read: BoolArray  # [position]: goes through the stack, new or once more
    is_kept: BoolArray  # [layer, position]

    @property
    def n_read(self) -> int:
        return int(np.count_nonzero(self.is_read))


@dataclass(frozen=True, eq=False)
class _Side:
    """Places of one text, as a rule asks about them."""

    index: NDArray[np.integer]
    in_prefix: BoolArray
    document: int = 0
    real: bool = True


def needed_later(
    rule: Rule, places: NDArray[np.integer], length: int, prefix: int = 0
) -> BoolArray:
    """Which of some places of a text can be seen by a token that is appended to it, now or ever:
    [group of heads, place].

    The text has one document, and its prefix stays as it is. For a fixed key and fixed steps of
    all strides, every rule shows a later query no more than an earlier one. So the queries of one
    period decide.
    """
    key = _Side(places, places < prefix)
    groups = []
    for part in head_rules(rule):
        period = lcm(*[leaf.n for leaf in leaves(part) if isinstance(leaf, Strided)])
        if period > MAX_PERIOD:
            part, period = _without_strides(part), 1
        later = np.arange(length, length + period)[:, None]
        query = _Side(later, np.zeros_like(later, bool))
        groups.append(np.broadcast_to(part.sees(query, key), (period, len(places))).any(0))
    return np.stack(groups)


def plan_growth(stack: Sequence[Rule], old: SequenceLayout, new: SequenceLayout) -> GrowthPlan:
    """What is read when `old` grows into `new`, and what is kept then. `old` may be empty.

    A token is read if it is new, or if a token that is read, or will be, sees a key of it that the
    cache does not have. Whatever is read goes through all layers.
    """
    assert old.length <= new.length
    is_needed = _is_needed(stack, new)
    is_read = np.arange(new.length) >= old.length
    if old.length == 0 or _keeps_everything(stack, old, new):
        return GrowthPlan(is_read, is_needed)
    is_there = np.zeros((len(stack), new.length), bool)
    is_there[:, : old.length] = valid_cache(stack, old, new) & _is_needed(stack, old)
    visible = {rule: visible_rows(rule, new, slice(0, new.length)) for rule in dict.fromkeys(stack)}
    while True:
        is_missing = np.zeros(new.length, bool)
        for rule, there, needed in zip(stack, is_there, is_needed, strict=True):
            is_wanted = needed | visible[rule][is_read].any(0)
            is_missing |= is_wanted & ~there
        if not (is_missing & ~is_read).any():
            return GrowthPlan(is_read, is_needed)
        is_read = is_read | is_missing


def _keeps_everything(stack: Sequence[Rule], old: SequenceLayout, new: SequenceLayout) -> bool:
    """Is no key stale, and none gone that is asked for, whatever was appended?"""
    for layout in (old, new):
        if layout.documents is not None or layout.real is not None:
            return False
    if old.prefix != new.prefix and any(PREFIX_RULES & leaves(rule) for rule in stack):
        return False
    return appendable(stack)


def _is_needed(stack: Sequence[Rule], layout: SequenceLayout) -> BoolArray:
    """What each layer needs of a text, by any head."""
    places = np.arange(layout.length)
    needed = {}
    for rule in dict.fromkeys(stack):
        needed[rule] = needed_later(rule, places, layout.length, layout.prefix).any(0)
        if layout.real is not None:
            needed[rule] = needed[rule] & layout.real
    return np.stack([needed[rule] for rule in stack])


def _without_strides(rule: Rule) -> Rule:
    """A rule that shows at least as much."""
    match rule:
        case And(left, right) | Or(left, right):
            return replace(rule, left=_without_strides(left), right=_without_strides(right))
        case Strided():
            return Full()
        case _:
            return rule
