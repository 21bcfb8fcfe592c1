"""Rules in writing: `causal & window(256)`, `by_head(causal, reverse)`; `str(rule)` is the way back."""

import ast

from paribus.errors import SpecError
from paribus.masks.rules import LEAVES, SEVERAL, SIZED, Rule
from paribus.nearest import did_you_mean

WORDS = (*LEAVES, *(f"{name}(n)" for name in SIZED), *(f"{name}(…, …)" for name in SEVERAL))


MOST_WORDS = 64


def parse(text: str) -> Rule:
    """The rule a text denotes; SpecError says which word is not one."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        if sum(isinstance(node, ast.Name) for node in ast.walk(tree)) > MOST_WORDS:
            raise SpecError(f"mask {text[:40]!r}… has more than {MOST_WORDS} words; use fewer")
        return _rule(tree, text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as fault:
        raise SpecError(
            f"mask {text!r} cannot be read; write rules joined by & and |, such as 'causal & window(8)'"
        ) from fault


def _rule(node: ast.expr, text: str) -> Rule:
    match node:
        case ast.BinOp(left, ast.BitAnd(), right):
            return _rule(left, text) & _rule(right, text)
        case ast.BinOp(left, ast.BitOr(), right):
            return _rule(left, text) | _rule(right, text)
        case ast.Name(name) if name in LEAVES:
            return LEAVES[name]()
        case ast.Call(ast.Name(name), [], []) if name in LEAVES:
            return LEAVES[name]()
        case ast.Call(ast.Name(name), [ast.Constant(int(n))], []) if name in SIZED and not isinstance(n, bool):
            return SIZED[name](n)
        case ast.Call(ast.Name(name), rules, []) if name in SEVERAL:
            return SEVERAL[name](tuple(_rule(part, text) for part in rules))
        case _:
            raise SpecError(_complaint(node, text))


def _complaint(node: ast.expr, text: str) -> str:
    given = ast.unparse(node)
    word = node.func if isinstance(node, ast.Call) else node
    name = word.id if isinstance(word, ast.Name) else ""
    if name in SIZED:
        return f"mask {text!r} has {given!r}; {name} takes one whole number, as in '{name}(8)'"
    advice = did_you_mean(name, [*LEAVES, *SIZED, *SEVERAL])
    fault = "is no rule" if given == text.strip() else f"has {given!r}, which is no rule"
    return f"mask {text!r} {fault}; {advice}rules are {', '.join(WORDS)}, joined by & and |"
