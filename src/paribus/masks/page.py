"""A rule on a page: its picture in SVG, and how a notebook shows it."""

from __future__ import annotations

from html import escape
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.division import at_layer, heads
from paribus.masks.rules import Alternate, And, ByHead, ByLayer, Or, Rule
from paribus.masks.squares import squares

SIDE = 16  # squares of a picture, each way
_PIXELS = 96
_PREFIX = 0.5  # of the sequence


def outline(seen: NDArray[np.bool_]) -> str:
    """An SVG path: a bar for every run of visible squares in a row."""
    parts = []
    for y, row in enumerate(seen):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
        parts += [f"M{begin} {y}h{end - begin}v1h{begin - end}z" for begin, end in edges.reshape(-1, 2)]
    return "".join(parts)


def html(rule: Rule) -> str:
    """A picture for every distinct rule of its layers and heads; a row is a query, a column a key."""
    n_layers = _n_layers(rule)
    drawn = dict.fromkeys(part for layer in range(n_layers) for part in heads(at_layer(rule, layer, n_layers)))
    figures = "".join(_figure(part) for part in drawn)
    return f'<div><code>{escape(str(rule))}</code><div style="display:flex;gap:1em">{figures}</div></div>'


def _figure(rule: Rule) -> str:
    name = escape(str(rule))
    picture = (
        f'<svg role="img" aria-label="{name}" width="{_PIXELS}" height="{_PIXELS}" viewBox="0 0 {SIDE} {SIDE}">'
        f'<rect width="{SIDE}" height="{SIDE}" fill="currentColor" opacity="0.12"/>'
        f'<path d="{outline(squares(rule, SIDE, _PREFIX))}" fill="currentColor"/></svg>'
    )
    return f'<figure style="margin:0">{picture}<figcaption><code>{name}</code></figcaption></figure>'


def _n_layers(rule: Rule) -> int:
    """How many layers show all that a rule does."""
    match rule:
        case And(left, right) | Or(left, right):
            return lcm(_n_layers(left), _n_layers(right))
        case ByLayer(rules) | Alternate(rules):
            return len(rules) * lcm(*map(_n_layers, rules))
        case ByHead(rules):
            return lcm(*map(_n_layers, rules))
        case _:
            return 1


Rule._repr_html_ = html  # a notebook asks the value, and what draws stands above what is drawn
