"""Rules in writing: `causal & window(256)`, `by_head(causal, reverse)`; `str(rule)` is the way
back.
"""

import ast

from paribus.errors import SpecError, quote
from paribus.masks.rules import COMPOSITE_RULES, LEAF_RULES, SIZED_RULES, Rule
from paribus.nearest import did_you_mean

NOTATION = (
    *LEAF_RULES,
    *(f"{name}(n)" for name in SIZED_RULES),
    *(f"{name}(…, …)" for name in COMPOSITE_RULES),
)


MAX_NAMES = 64


def parse_rule(text: str) -> Rule:
    """The rule a text denotes; SpecError says which word is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if sum(isinstance(node, ast.Name) for node in ast.walk(tree)) > MAX_NAMES:
            raise SpecError(f"mask {quote(text)} has more than {MAX_NAMES} words; use fewer")
        return _parse_node(tree, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise SpecError(
            f"mask {quote(text)} cannot be read; write rules joined by & and |, such as 'causal &"
            " window(8)'"
        ) from fault


def _parse_node(node: ast.expr, text: str) -> Rule:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return _parse_node(left, text) & _parse_node(right, text)
        case ast.BinOp(left, ast.BitOr(), right):
            return _parse_node(left, text) | _parse_node(right, text)
        case ast.Name(name) if name in LEAF_RULES:
            return LEAF_RULES[name]()
        case ast.Call(ast.Name(name), [], []) if name in LEAF_RULES:
            return LEAF_RULES[name]()
        case ast.Call(ast.Name(name), [ast.Constant(int(n))], []) if (
            name in SIZED_RULES and not isinstance(n, bool)
        ):
            return SIZED_RULES[name](n)
        case ast.Call(ast.Name(name), rules, []) if name in COMPOSITE_RULES:
            return COMPOSITE_RULES[name](tuple(_parse_node(part, text) for part in rules))
        case _:
            raise SpecError(_describe_fault(node, text))


def _describe_fault(node: ast.expr, text: str) -> str:
    expression = ast.unparse(node)
    word = node.func if isinstance(node, ast.Call) else node
    name = word.id if isinstance(word, ast.Name) else ""
    if name in SIZED_RULES:
        return (
            f"mask {quote(text)} has {quote(expression)}; {name} takes one whole number, as in"
            f" '{name}(8)'"
        )
    advice = did_you_mean(name, [*LEAF_RULES, *SIZED_RULES, *COMPOSITE_RULES])
    if expression == text.strip():
        fault = "is no rule"
    else:
        fault = f"has {quote(expression)}, which is no rule"
    return f"mask {quote(text)} {fault}; {advice}rules are {', '.join(NOTATION)}, joined by & and |"
