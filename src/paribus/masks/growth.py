"""What a cache does when a text grows: which keys a later token can still see, and which tokens are
read again.

A key is kept if it is valid (`valid_cache`) and needed (`needed_later`). All else is read again,
never approximated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.assignment import head_rules
from paribus.masks.dense import BoolArray, SequenceLayout, visible_rows
from paribus.masks.reach import appendable, valid_cache
from paribus.masks.rules import (
    DOCUMENT_RULES,
    PREFIX_RULES,
    And,
    Full,
    Or,
    Rule,
    Strided,
    Window,
)
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
    document: int | NDArray[np.integer] = 0
    real: bool = True


def needed_later(
    rule: Rule,
    places: NDArray[np.integer],
    length: int,
    prefix: int = 0,
    documents: NDArray[np.integer] | None = None,
) -> BoolArray:
    """Which of some places of a text can be seen by a token that is appended to it, now or ever:
    [group of heads, place].

    The prefix stays as it is. `documents` of the text are numbered in order: a later token belongs
    to the last one or to a new one, which sees no more of the text than the last one does. For a
    fixed key and fixed steps of all strides, every rule shows a later query no more than an earlier
    one. So the queries of one period decide.
    """
    key, last_document = _Side(places, places < prefix), 0
    if documents is not None and len(documents):
        key, last_document = replace(key, document=documents[places]), int(documents[-1])
    groups = []
    for part in head_rules(rule):
        period = lcm(*[leaf.n for leaf in leaves(part) if isinstance(leaf, Strided)])
        if period > MAX_PERIOD:
            part, period = _without_strides(part), 1
        later = np.arange(length, length + period)[:, None]
        query = _Side(later, np.zeros_like(later, bool), last_document)
        seen = np.zeros((period, len(places)), bool)
        seen |= part.sees(query, key)
        groups.append(seen.any(0))
    return np.stack(groups)


def plan_growth(
    stack: Sequence[Rule],
    old: SequenceLayout,
    new: SequenceLayout,
    same_source: BoolArray | None = None,
) -> GrowthPlan:
    """What is read when `old` grows into `new`, and what is kept then. `old` may be empty.

    A token is read if it is new, or if a token that is read, or will be, sees a key of it that the
    cache does not have. Whatever is read goes through all layers. Beside a source that grows,
    `same_source` says which layers see the same of it as before, [layer, old position].
    """
    assert old.length <= new.length
    if not any(DOCUMENT_RULES & leaves(rule) for rule in stack):
        old, new = replace(old, documents=None), replace(new, documents=None)
    by_group, is_kept = _needed_by_group(stack, new), needed_by_layer(stack, new)
    is_read = np.arange(new.length) >= old.length
    if same_source is not None and same_source.all():
        same_source = None
    if old.length == 0 or (same_source is None and _keeps_everything(stack, old, new)):
        return GrowthPlan(is_read, is_kept)
    is_valid = valid_cache(stack, old, new, same_source)
    is_there = []
    for valid, needed in zip(is_valid, _needed_by_group(stack, old), strict=True):
        there = np.zeros((len(needed), new.length), bool)
        there[:, : old.length] = valid & needed
        is_there.append(there)
    return GrowthPlan(with_missing(stack, new, is_read, is_there, by_group), is_kept)


def with_missing(
    stack: Sequence[Rule],
    layout: SequenceLayout,
    is_read: BoolArray,
    is_there: Sequence[BoolArray],
    is_needed: Sequence[BoolArray],
) -> BoolArray:
    """What is read, and what must be read for it: tokens of which a key is asked for that is not
    there. `is_there` and `is_needed` are [group of heads, position], layer by layer.
    """
    everyone = slice(0, layout.length)
    visible: dict[Rule, BoolArray] = {}
    for rule in dict.fromkeys(stack):
        for part in head_rules(rule):
            if part not in visible:
                visible[part] = visible_rows(part, layout, everyone)
    while not is_read.all():
        is_missing = np.zeros(layout.length, bool)
        is_seen = {part: rows[is_read].any(0) for part, rows in visible.items()}
        for rule, there, needed in zip(stack, is_there, is_needed, strict=True):
            for number, part in enumerate(head_rules(rule)):
                is_wanted = needed[number] | is_seen[part]
                is_missing |= is_wanted & ~there[number]
        if not (is_missing & ~is_read).any():
            break
        is_read = is_read | is_missing
    return is_read


def _keeps_everything(stack: Sequence[Rule], old: SequenceLayout, new: SequenceLayout) -> bool:
    """Is no key stale, and none gone that is asked for, whatever was appended?"""
    for layout in (old, new):
        if layout.documents is not None or layout.real is not None:
            return False
    if old.prefix != new.prefix and any(PREFIX_RULES & leaves(rule) for rule in stack):
        return False
    return appendable(stack)


def needed_by_layer(stack: Sequence[Rule], layout: SequenceLayout) -> BoolArray:
    """What each layer needs of a text for tokens that are appended to it, by any head."""
    return np.stack([needed.any(0) for needed in _needed_by_group(stack, layout)])


def _needed_by_group(stack: Sequence[Rule], layout: SequenceLayout) -> list[BoolArray]:
    """What each group of heads needs of a text, layer by layer: [group, position]."""
    places, length = np.arange(layout.length), layout.length
    needed: dict[Rule, BoolArray] = {}
    for rule in dict.fromkeys(stack):
        needed[rule] = needed_later(rule, places, length, layout.prefix, layout.documents)
        if layout.real is not None:
            needed[rule] = needed[rule] & layout.real
    return [needed[rule] for rule in stack]


@lru_cache(maxsize=256)
def frees_keys(rule: Rule) -> bool:
    """Does a rule, or that of some heads, lose sight of a key for good as a text grows?"""
    widest = max((leaf.n for leaf in leaves(rule) if isinstance(leaf, Window)), default=1)
    return not needed_later(rule, np.zeros(1, np.int64), widest + 1).all()


def head_groups(rule: Rule, n_kv_heads: int) -> tuple[Rule, ...]:
    """The rules of groups of heads that keep keys of their own, since some free keys that others
    need; else the rule itself.
    """
    parts = head_rules(rule)
    if len(set(parts)) == 1 or n_kv_heads % len(parts) or not frees_keys(rule):
        return (rule,)
    return parts


def _without_strides(rule: Rule) -> Rule:
    """A rule that shows at least as much."""
    match rule:
        case And(left, right) | Or(left, right):
            return replace(rule, left=_without_strides(left), right=_without_strides(right))
        case Strided():
            return Full()
        case _:
            return rule
