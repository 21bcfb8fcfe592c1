"""What a rule comes to: the elementary rules in it, and its simplest form for a sequence."""

from __future__ import annotations

from paribus.masks.rules import (
    And,
    Causal,
    CompositeRule,
    DocumentsSoFar,
    Full,
    Nothing,
    Or,
    Padding,
    Prefix,
    Rule,
    SameDocument,
    SameSide,
    Window,
)


def common_rule(rules: tuple[Rule, ...]) -> Rule | None:
    """The rule that all parts are; None where they differ, or where each divides its own heads
    or layers again.
    """
    if len(set(rules)) == 1 and not _has_composite(rules[0]):
        return rules[0]
    return None


def _has_composite(rule: Rule) -> bool:
    """Does a rule differ by head or by layer?"""
    match rule:
        case And(left, right) | Or(left, right):
            return _has_composite(left) or _has_composite(right)
        case _:
            return isinstance(rule, CompositeRule)


def simplify_rule(rule: Rule, has_documents: bool, has_padding: bool, has_prefix: bool) -> Rule:
    """A rule simplified for a sequence that has no documents, no padding or no prefix."""

    def simplify(part: Rule) -> Rule:
        return simplify_rule(part, has_documents, has_padding, has_prefix)

    match rule:
        case And(left, right):
            left, right = simplify(left), simplify(right)
            if isinstance(left, Window) and right == Causal():
                return left
            if isinstance(right, Window) and left == Causal():
                return right
            if Nothing() in (left, right):
                return Nothing()
            return left & right
        case Or(left, right):
            left, right = simplify(left), simplify(right)
            if left == Nothing():
                return right
            if right == Nothing():
                return left
            return left | right
        case CompositeRule(rules):
            parts = tuple(map(simplify, rules))
            return common_rule(parts) or type(rule)(parts)
        case SameDocument() | DocumentsSoFar() if not has_documents:
            return Full()
        case Padding() if not has_padding:
            return Full()
        case Prefix() if not has_prefix:
            return Causal()
        case SameSide() if not has_prefix:
            return Full()
        case _:
            return rule


def leaves(rule: Rule) -> frozenset[Rule]:
    """Every elementary rule that occurs in a rule."""
    match rule:
        case And(left, right) | Or(left, right):
            return leaves(left) | leaves(right)
        case CompositeRule(rules):
            return frozenset().union(*map(leaves, rules))
        case _:
            return frozenset({rule})
