"""Finds the rule of one layer or head when a mask differs between layers or heads."""

from __future__ import annotations

from itertools import chain, repeat
from math import isqrt, lcm
from operator import and_, or_

from paribus.errors import SpecError
from paribus.masks.rules import Alternate, And, ByHead, ByLayer, Or, Rule
from paribus.masks.simplification import common_rule

MAX_HEAD_GROUPS = 4096


def rule_at_layer(rule: Rule, layer: int, n_layers: int) -> Rule:
    """The rule of one layer, counted from 0 at the bottom.

    A rule inside `by_layer` or `alternate` sees only the layers assigned to it, numbered from 0.
    """
    assert 0 <= layer < n_layers
    return _rule_at_assigned_layer(rule, layer, n_layers, n_layers)


def _rule_at_assigned_layer(rule: Rule, layer: int, n_assigned: int, n_layers: int) -> Rule:
    """The rule of one layer. `layer` counts within the n_assigned layers assigned to this rule;
    `n_layers` is used only in messages.

    Raises SpecError if some sub-rule would get no layer.
    """

    def rule_here(part: Rule) -> Rule:
        return _rule_at_assigned_layer(part, layer, n_assigned, n_layers)

    match rule:
        case And(left, right):
            return rule_here(left) & rule_here(right)
        case Or(left, right):
            return rule_here(left) | rule_here(right)
        case ByLayer(rules):
            _require_equal_groups(rule, len(rules), n_assigned, n_layers)
            n_each = n_assigned // len(rules)
            rule_index, own_layer = divmod(layer, n_each)
            return _rule_at_assigned_layer(rules[rule_index], own_layer, n_each, n_layers)
        case Alternate(rules):
            _require_turns(rule, len(rules), n_assigned, n_layers)
            turn, rule_index = divmod(layer, len(rules))
            n_turns = -(-(n_assigned - rule_index) // len(rules))
            return _rule_at_assigned_layer(rules[rule_index], turn, n_turns, n_layers)
        case ByHead(rules):
            parts = tuple(map(rule_here, rules))
            return common_rule(parts) or ByHead(parts)  # no ByHead if all heads have one rule now
        case _:
            return rule


def _require_equal_groups(rule: Rule, n_rules: int, n_assigned: int, n_layers: int) -> None:
    if n_assigned % n_rules:
        raise SpecError(
            f"mask {rule} has {n_rules} rules, so it needs a multiple of {n_rules} layers, but"
            f" {_describe_layers(n_assigned, n_layers)}; use a number of rules among"
            f" {_describe_divisors(n_assigned)}"
        )


def _require_turns(rule: Rule, n_rules: int, n_assigned: int, n_layers: int) -> None:
    if n_assigned < n_rules:
        raise SpecError(
            f"mask {rule} has {n_rules} rules, so it needs at least {n_rules} layers, but"
            f" {_describe_layers(n_assigned, n_layers)}; use fewer rules, or more layers"
        )


def _describe_layers(n_assigned: int, n_layers: int) -> str:
    if n_assigned == n_layers:
        return f"n_layers is {n_layers}"
    return f"it is assigned {n_assigned} of n_layers {n_layers}"


def head_rules(rule: Rule) -> tuple[Rule, ...]:
    """One rule per equal-sized group of heads, in head order; rules may repeat."""
    match rule:
        case And(left, right):
            left_groups, right_groups = _align_groups(head_rules(left), head_rules(right))
            return tuple(map(and_, left_groups, right_groups))
        case Or(left, right):
            left_groups, right_groups = _align_groups(head_rules(left), head_rules(right))
            return tuple(map(or_, left_groups, right_groups))
        case ByHead(rules):
            parts = [head_rules(part) for part in rules]
            n_groups = lcm(*map(len, parts))
            if n_groups * len(parts) > MAX_HEAD_GROUPS:
                raise SpecError(
                    f"mask has {n_groups * len(parts)} groups of heads; use at most"
                    f" {MAX_HEAD_GROUPS}"
                )
            return tuple(chain.from_iterable(_repeat_each_rule(part, n_groups) for part in parts))
        case ByLayer() | Alternate():
            raise TypeError(f"{rule} differs by layer; call rule_at_layer first")
        case _:
            return (rule,)


def rule_at_head(rule: Rule, head: int, n_heads: int) -> Rule:
    """The rule of one head of a layer."""
    groups = head_rules(rule)
    if n_heads % len(groups):
        raise SpecError(
            f"mask {rule} has {len(groups)} groups of heads, so it needs a multiple of"
            f" {len(groups)} heads, but n_heads is {n_heads}; use a number of groups among"
            f" {_describe_divisors(n_heads)}"
        )
    return groups[head * len(groups) // n_heads]


def _align_groups(
    left: tuple[Rule, ...], right: tuple[Rule, ...]
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Both lists repeated to the same length."""
    n_groups = lcm(len(left), len(right))
    return _repeat_each_rule(left, n_groups), _repeat_each_rule(right, n_groups)


def _repeat_each_rule(rules: tuple[Rule, ...], n_groups: int) -> tuple[Rule, ...]:
    """A list of n_groups rules, in which each rule is repeated equally often."""
    n_times = n_groups // len(rules)
    return tuple(chain.from_iterable(repeat(rule, n_times) for rule in rules))


def divisors(n: int) -> list[int]:
    """All divisors of n, in ascending order."""
    result: set[int] = set()
    for d in range(1, isqrt(n) + 1):
        if n % d == 0:
            result |= {d, n // d}
    return sorted(result)


def _describe_divisors(n: int) -> str:
    return ", ".join(map(str, divisors(n)))
