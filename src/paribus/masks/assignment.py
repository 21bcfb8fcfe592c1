"""Which rule each layer and each head has, where a rule divides them."""

from __future__ import annotations

from itertools import chain, repeat
from math import isqrt, lcm
from operator import and_, or_

from paribus.errors import SpecError
from paribus.masks.rules import Alternate, And, ByHead, ByLayer, Or, Rule, common_rule

MAX_HEAD_GROUPS = 4096  # of heads


def at_layer(rule: Rule, layer: int, n_layers: int) -> Rule:
    """The rule of one layer, counted from 0 at the bottom.

    A rule within `by_layer` or `alternate` has the layers it is given there, and counts them from 0
    itself.
    """
    assert 0 <= layer < n_layers
    return _at_own_layer(rule, layer, n_layers, n_layers)


def _at_own_layer(rule: Rule, layer: int, n_own: int, n_layers: int) -> Rule:
    """The rule of a layer among the `n_own` of `n_layers` that a rule has; none of its rules is
    left without one.
    """
    match rule:
        case And(left, right):
            return _at_own_layer(left, layer, n_own, n_layers) & _at_own_layer(
                right, layer, n_own, n_layers
            )
        case Or(left, right):
            return _at_own_layer(left, layer, n_own, n_layers) | _at_own_layer(
                right, layer, n_own, n_layers
            )
        case ByLayer(rules):
            _require_equal_groups(rule, len(rules), n_own, n_layers)
            each = n_own // len(rules)
            return _at_own_layer(rules[layer // each], layer % each, each, n_layers)
        case Alternate(rules):
            _require_turns(rule, len(rules), n_own, n_layers)
            turn, place = divmod(layer, len(rules))
            n_turns = -(-(n_own - place) // len(rules))
            return _at_own_layer(rules[place], turn, n_turns, n_layers)
        case ByHead(rules):
            parts = tuple(_at_own_layer(part, layer, n_own, n_layers) for part in rules)
            return common_rule(parts) or ByHead(parts)
        case _:
            return rule


def _require_equal_groups(rule: Rule, n_rules: int, n_own: int, n_layers: int) -> None:
    if n_own % n_rules:
        raise SpecError(
            f"mask {rule} has {n_rules} rules, which do not divide"
            f" {_describe_layers(n_own, n_layers)}; use a number of rules among"
            f" {_describe_divisors(n_own)}"
        )


def _require_turns(rule: Rule, n_rules: int, n_own: int, n_layers: int) -> None:
    if n_own < n_rules:
        raise SpecError(
            f"mask {rule} has {n_rules} rules, more than {_describe_layers(n_own, n_layers)}; use"
            " fewer rules, or more layers"
        )


def _describe_layers(n_own: int, n_layers: int) -> str:
    if n_own == n_layers:
        return f"n_layers {n_layers}"
    return f"its {n_own} of n_layers {n_layers}"


def head_rules(rule: Rule) -> tuple[Rule, ...]:
    """The distinct rules of one layer's heads, in order, for equal groups of heads."""
    match rule:
        case And(left, right):
            return tuple(map(and_, *_align_groups(head_rules(left), head_rules(right))))
        case Or(left, right):
            return tuple(map(or_, *_align_groups(head_rules(left), head_rules(right))))
        case ByHead(rules):
            parts = [head_rules(part) for part in rules]
            widest = lcm(*map(len, parts))
            if widest * len(parts) > MAX_HEAD_GROUPS:
                raise SpecError(
                    f"mask has {widest * len(parts)} groups of heads; use at most {MAX_HEAD_GROUPS}"
                )
            return tuple(chain.from_iterable(_repeat_rules(group, widest) for group in parts))
        case ByLayer() | Alternate():
            raise TypeError(f"{rule} differs by layer; ask at_layer first")
        case _:
            return (rule,)


def at_head(rule: Rule, head: int, n_heads: int) -> Rule:
    """The rule of one head of a layer."""
    groups = head_rules(rule)
    if n_heads % len(groups):
        raise SpecError(
            f"mask {rule} has {len(groups)} groups of heads, which do not divide n_heads {n_heads};"
            f" use a number of groups among {_describe_divisors(n_heads)}"
        )
    return groups[head * len(groups) // n_heads]


def _align_groups(
    left: tuple[Rule, ...], right: tuple[Rule, ...]
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Both with as many groups of heads."""
    widest = lcm(len(left), len(right))
    return _repeat_rules(left, widest), _repeat_rules(right, widest)


def _repeat_rules(group: tuple[Rule, ...], width: int) -> tuple[Rule, ...]:
    n_times = width // len(group)
    return tuple(chain.from_iterable(repeat(rule, n_times) for rule in group))


def divisors(n: int) -> list[int]:
    """Every divisor, in order."""
    found: set[int] = set()
    for d in range(1, isqrt(n) + 1):
        if n % d == 0:
            found |= {d, n // d}
    return sorted(found)


def _describe_divisors(n: int) -> str:
    return ", ".join(map(str, divisors(n)))
