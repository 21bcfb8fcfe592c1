"""What follows from a stack of rules: who reaches whom, which caches stay valid, where an
answer leaks.

A *stack* is one rule per layer, bottom first. Every position also keeps its own residual, so it
reaches itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.assignment import head_rules
from paribus.masks.dense import (
    BoolArray,
    SequenceLayout,
    are_pairs_visible,
    count_visible_keys,
    dense_mask,
    visible_rows,
)
from paribus.masks.rules import MAX_RULE_SIZE, Rule, SameSide, Strided, Window
from paribus.masks.simplification import leaves

# queries times keys that are looked at together: long sequences take no more memory
_PAIRS_AT_ONCE = 2**22
_POSITIONS_AT_ONCE = (
    256  # positions whose answers are followed together: the first leak is often among the first
)


def reachability(stack: Sequence[Rule], layout: SequenceLayout) -> BoolArray:
    """Whose input can change whose output, through all layers and heads: [position, source]."""
    return reachable_from(stack, layout, np.eye(layout.length, dtype=bool))


def reachable_from(stack: Sequence[Rule], layout: SequenceLayout, sources: BoolArray) -> BoolArray:
    """Where something of these sources arrives through all layers; given as [position] or as
    [position, set].
    """
    reach = sources
    for rule, layers in groupby(stack):
        for _ in layers:
            before, reach = reach, _reach_after_layer(rule, layout, reach)
            if np.array_equal(before, reach):
                break  # the same rule once more changes nothing
    return reach


def sources_of(stack: Sequence[Rule], layout: SequenceLayout, position: int) -> BoolArray:
    """Which inputs can change the output of one position through all layers and heads,
    [source].
    """
    reached = np.arange(layout.length) == position
    for rule, layers in groupby(reversed(stack)):
        visible = visible_rows(rule, layout, slice(0, layout.length))
        for _ in layers:
            before, reached = reached, reached | visible[reached].any(0)
            if np.array_equal(before, reached):
                break  # the same rule once more changes nothing
    return reached


def find_path(
    stack: Sequence[Rule], layout: SequenceLayout, position: int, source: int
) -> list[int] | None:
    """A route by which `position` sees `source`: the position after each layer, from source up;
    None if none.
    """
    reach_by_layer = [np.arange(layout.length) == source]
    for rule in stack:
        reach_by_layer.append(_reach_after_layer(rule, layout, reach_by_layer[-1]))
    if not reach_by_layer[-1][position]:
        return None
    route = [position]
    for rule, below in zip(reversed(stack), reversed(reach_by_layer[:-1]), strict=True):
        here = route[-1]
        # Stay in place while possible, so the route names only the hops that carry the answer.
        visible_keys = visible_rows(rule, layout, slice(here, here + 1))[0]
        route.append(here if below[here] else int(np.flatnonzero(visible_keys & below)[0]))
    return route[::-1]


def leaks(
    stack: Sequence[Rule], layout: SequenceLayout, sources: NDArray[np.integer]
) -> NDArray[np.integer]:
    """The positions whose output can see the token they must predict.

    `sources[p]` is the input position that holds the token p predicts, -1 where p predicts nothing
    or its token is not in the input (a masked one).
    """
    return np.concatenate([np.zeros(0, np.int64), *_find_leaks(stack, layout, sources)])


def find_leak(
    stack: Sequence[Rule], layout: SequenceLayout, sources: NDArray[np.integer]
) -> int | None:
    """One of the `leaks`, None if there is none: where one layer shows the answer, that is seen
    at once.
    """
    positions = np.flatnonzero(sources >= 0)
    is_shown = sources[positions] == positions
    for rule in dict.fromkeys(stack):
        is_shown = is_shown | are_pairs_visible(rule, layout, positions, sources[positions])
    leaking = positions[is_shown]
    if not len(leaking):
        leaking = next(_find_leaks(stack, layout, sources), leaking)
    if len(leaking):
        return int(leaking[0])
    return None


def _find_leaks(
    stack: Sequence[Rule], layout: SequenceLayout, sources: NDArray[np.integer]
) -> Iterator[NDArray[np.integer]]:
    """The leaks in order, some at a time."""
    positions = np.flatnonzero(sources >= 0)
    if _all_ahead(layout, positions, sources[positions]) and not looks_ahead(stack):
        return
    for start in range(0, len(positions), _POSITIONS_AT_ONCE):
        chunk = positions[start : start + _POSITIONS_AT_ONCE]
        answers = np.arange(layout.length)[:, None] == sources[chunk]
        leaking = chunk[reachable_from(stack, layout, answers)[chunk, np.arange(len(chunk))]]
        if len(leaking):
            yield leaking


def _all_ahead(
    layout: SequenceLayout, positions: NDArray[np.integer], targets: NDArray[np.integer]
) -> bool:
    """Does every answer stand after its question, and after the prefix?"""
    return bool(((targets > positions) & (targets >= layout.prefix)).all())


def looks_ahead(stack: Sequence[Rule]) -> bool:
    """Could a layer show a token that stands after the query, and after the prefix?

    If none could, no chain of layers does: each hop ends before the prefix does, or no later than
    it began.
    """
    return any(part.sees_new(prefix_grows=False) for part in _all_head_rules(dict.fromkeys(stack)))


def _all_head_rules(stack: Iterable[Rule]) -> Iterator[Rule]:
    """The rules of the heads of every layer, from the bottom up."""
    for rule in stack:
        yield from head_rules(rule)


def unchanged_states(
    stack: Sequence[Rule],
    old: SequenceLayout,
    new: SequenceLayout,
    same_source: BoolArray | None = None,
) -> BoolArray:
    """For each layer's input and the final output, [layer + 1, old position]: does it stay the
    same in `new`?

    `same_source` says where a layer sees the same of a source as before, [layer, old position].
    """
    assert old.length <= new.length
    n = old.length
    valid = [np.ones(n, bool)]
    views: dict[Rule, tuple[BoolArray, BoolArray]] = {}  # who sees whom, and whose view stays
    for layer, rule in enumerate(stack):
        if not valid[-1].any():
            valid.append(valid[-1])
            continue
        if rule not in views:
            before, after = _head_masks(rule, old), _head_masks(rule, new)[:, :n]
            same_view = ~after[:, :, n:].any((0, 2)) & (before == after[:, :, :n]).all((0, 2))
            views[rule] = before, same_view
        before, same_view = views[rule]
        sees_stale = np.zeros(n, bool)
        if not valid[-1].all():
            sees_stale = (before & ~valid[-1]).any((0, 2))
        valid.append(valid[-1] & same_view & ~sees_stale)
        if same_source is not None:
            valid[-1] &= same_source[layer]
    return np.stack(valid)


def valid_cache(
    stack: Sequence[Rule],
    old: SequenceLayout,
    new: SequenceLayout,
    same_source: BoolArray | None = None,
) -> BoolArray:
    """For each layer and old position: do its cached key and value stay valid when `old` grows
    into `new`?
    """
    return unchanged_states(stack, old, new, same_source)[:-1]


def appendable(stack: Sequence[Rule], prefix_grows: bool = False) -> bool:
    """Does every cached key and value stay valid for every continuation?

    A prefix fixed at the first turn is kept; with `prefix_grows` it moves to the end of each new
    prompt. The last layer's rule does not matter: its keys and values come from below it.
    """
    for part in list(_all_head_rules(stack[:-1])):
        if part.sees_new(prefix_grows) or (prefix_grows and _can_lose_sight(part)):
            return False
    return True


def _can_lose_sight(rule: Rule) -> bool:
    """Could a query lose sight of a token before it, once the prefix ends between the two?

    `&` and `|` alone make a rule, so it can only lose; counting finds it. Asked of the last of a
    text in which every distance that windows and strides tell apart occurs, within a document and
    across two.
    """
    if SameSide() not in leaves(rule):
        return False
    length = telling_length([rule])
    last = np.arange(length) == length - 1
    for documents in (None, last.astype(int)):
        before = SequenceLayout(length, 0, documents)
        after = SequenceLayout(length, length - 1, documents)
        if count_visible_keys(rule, before, last) > count_visible_keys(rule, after, last):
            return True
    return False


def telling_length(rules: Iterable[Rule]) -> int:
    """The length of a text in which every distance occurs that windows and strides tell apart."""
    widest, period = 0, 1
    for part in frozenset[Rule]().union(*map(leaves, rules)):
        if isinstance(part, Window):
            widest = max(widest, part.n)
        elif isinstance(part, Strided):
            period = lcm(period, part.n)
    return widest + min(period, MAX_RULE_SIZE) + 1


def _reach_after_layer(rule: Rule, layout: SequenceLayout, reach: BoolArray) -> BoolArray:
    """One layer more; in floats, whose product is a hundred times faster than that of booleans
    and as exact here.
    """
    after, wide = reach.copy(), reach.astype(np.float32)
    n_rows = max(_PAIRS_AT_ONCE // max(layout.length, 1), 1)
    for start in range(0, layout.length, n_rows):
        rows = slice(start, start + n_rows)
        after[rows] |= visible_rows(rule, layout, rows).astype(np.float32) @ wide > 0
    return after


def _head_masks(rule: Rule, layout: SequenceLayout) -> BoolArray:
    return np.stack([dense_mask(part, layout) for part in head_rules(rule)])
