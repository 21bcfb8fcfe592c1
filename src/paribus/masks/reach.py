"""What follows from a stack of rules: who reaches whom, which caches stay valid, where an answer leaks.

A *stack* is one rule per layer, bottom first. Every position also keeps its own residual, so it reaches itself.
"""

from collections.abc import Sequence
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.picture import Bools, Layout, dense, visible_keys
from paribus.masks.rules import LARGEST, Rule, SamePart, Strided, Window, heads, leaves


def reachability(stack: Sequence[Rule], layout: Layout) -> Bools:
    """Whose input can change whose output, through all layers and heads: [position, source]."""
    reached = np.eye(layout.length, dtype=bool)
    for rule in stack:
        reached = _after(_step(rule, layout), reached)
    return reached


def path(stack: Sequence[Rule], layout: Layout, position: int, source: int) -> list[int] | None:
    """A route by which `position` sees `source`: the position after each layer, from source up; None if none."""
    steps = [_step(rule, layout) for rule in stack]
    reached = [np.eye(layout.length, dtype=bool)[source]]
    for step in steps:
        reached.append(_after(step, reached[-1]))
    if not reached[-1][position]:
        return None
    route = [position]
    for step, below in zip(reversed(steps), reversed(reached[:-1]), strict=True):
        here = route[-1]
        # Stay in place while possible, so the route names only the hops that carry the answer.
        route.append(here if below[here] else int(np.flatnonzero(step[here] & below)[0]))
    return route[::-1]


def leaks(stack: Sequence[Rule], layout: Layout, sources: NDArray[np.integer]) -> NDArray[np.integer]:
    """The positions whose output can see the token they must predict.

    `sources[p]` is the input position that holds the token p predicts, -1 where p predicts nothing or its
    token is not in the input (a masked one).
    """
    positions = np.flatnonzero(sources >= 0)
    seen = reachability(stack, layout)[positions, sources[positions]]
    return positions[seen]


def unchanged(stack: Sequence[Rule], old: Layout, new: Layout) -> Bools:
    """For each layer's input and the final output, [layer + 1, old position]: does it stay the same in `new`?"""
    assert old.length <= new.length
    n = old.length
    valid = [np.ones(n, bool)]
    for rule in stack:
        before, after = _groups(rule, old), _groups(rule, new)[:, :n]
        same_view = ~after[:, :, n:].any((0, 2)) & (before == after[:, :, :n]).all((0, 2))
        sees_stale = (before & ~valid[-1]).any((0, 2))
        valid.append(valid[-1] & same_view & ~sees_stale)
    return np.stack(valid)


def kept(stack: Sequence[Rule], old: Layout, new: Layout) -> Bools:
    """For each layer and old position: do its cached key and value stay valid when `old` grows into `new`?"""
    return unchanged(stack, old, new)[:-1]


def appendable(stack: Sequence[Rule], prefix_grows: bool = False) -> bool:
    """Does every cached key and value stay valid for every continuation?

    A prefix fixed at the first turn is kept; with `prefix_grows` it moves to the end of each new prompt.
    The last layer's rule does not matter: its keys and values come from below it.
    """
    parts = [part for rule in stack[:-1] for part in heads(rule)]
    return not any(part.sees_new(prefix_grows) or (prefix_grows and _parted(part)) for part in parts)


def _parted(rule: Rule) -> bool:
    """Could a query lose sight of a token before it, once the prefix ends between the two?

    `&` and `|` alone make a rule, so it can only lose; counting finds it. Asked of the last of a text in which every
    distance that windows and strides tell apart occurs, within a document and across two.
    """
    parts = leaves(rule)
    if SamePart() not in parts:
        return False
    widest = max((part.n for part in parts if isinstance(part, Window)), default=0)
    period = lcm(*(part.n for part in parts if isinstance(part, Strided)))
    length = widest + min(period, LARGEST) + 1
    last = np.arange(length) == length - 1
    for documents in (None, last.astype(int)):
        before, after = (Layout(length, prefix, documents) for prefix in (0, length - 1))
        if visible_keys(rule, before, last) > visible_keys(rule, after, last):
            return True
    return False


def _after(step: Bools, reached: Bools) -> Bools:
    """One layer more; in floats, whose product is a hundred times faster than that of booleans and as exact here."""
    return step.astype(np.float32) @ reached.astype(np.float32) > 0


def _groups(rule: Rule, layout: Layout) -> Bools:
    return np.stack([dense(part, layout) for part in heads(rule)])


def _step(rule: Rule, layout: Layout) -> Bools:
    return _groups(rule, layout).any(0) | np.eye(layout.length, dtype=bool)
