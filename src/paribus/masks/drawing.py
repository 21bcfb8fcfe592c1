"""A rule on a page: its picture in SVG, and how a notebook shows it."""

from __future__ import annotations

from html import escape
from math import lcm

import numpy as np
from numpy.typing import NDArray

from paribus.masks.assignment import head_rules, rule_at_layer
from paribus.masks.dense import coarse_mask
from paribus.masks.rules import Alternate, And, ByHead, ByLayer, Or, Rule

PICTURE_SIDE = 16  # squares of a picture, each way
_PIXELS = 96
_PREFIX_SHARE = 0.5  # of the sequence


def svg_path(mask: NDArray[np.bool_]) -> str:
    """An SVG path: a bar for every run of visible squares in a row."""
    parts = []
    for y, row in enumerate(mask):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], row.astype(np.int8), [0]))))
        for begin, end in edges.reshape(-1, 2):
            parts.append(f"M{begin} {y}h{end - begin}v1h{begin - end}z")
    return "".join(parts)


def rule_html(rule: Rule) -> str:
    """A picture for every distinct rule of its layers and heads; a row is a query, a column a
    key.
    """
    n_layers = _n_layers(rule)
    distinct_rules: dict[Rule, None] = {}
    for layer in range(n_layers):
        distinct_rules |= dict.fromkeys(head_rules(rule_at_layer(rule, layer, n_layers)))
    figures = "".join(map(_figure, distinct_rules))
    return (
        f"<div><code>{escape(str(rule))}</code><div"
        f' style="display:flex;gap:1em">{figures}</div></div>'
    )


def _figure(rule: Rule) -> str:
    name = escape(str(rule))
    picture = (
        f'<svg role="img" aria-label="{name}" width="{_PIXELS}" height="{_PIXELS}" viewBox="0 0'
        f' {PICTURE_SIDE} {PICTURE_SIDE}"><rect width="{PICTURE_SIDE}" height="{PICTURE_SIDE}"'
        ' fill="currentColor" opacity="0.12"/><path'
        f' d="{svg_path(coarse_mask(rule, PICTURE_SIDE, _PREFIX_SHARE))}"'
        ' fill="currentColor"/></svg>'
    )
    return (
        f'<figure style="margin:0">{picture}<figcaption><code>{name}</code></figcaption></figure>'
    )


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


Rule._repr_html_ = rule_html  # a notebook asks the value, and what draws stands above what is drawn
