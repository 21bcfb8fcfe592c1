"""Pictures are true: every drawing in a rule's docstring equals its dense mask."""

import inspect
import re

import numpy as np
import pytest

from paribus.masks import Layout, dense, drawing, parse, rules
from paribus.masks.rules import LEAVES, SEVERAL, SIZED, And, Or, Rule

LAYOUTS = {
    "prefix": Layout(4, prefix=2),
    "same_part": Layout(4, prefix=2),
    "same_document": Layout(4, documents=np.array([0, 0, 1, 1])),
    "padding": Layout(4, real=np.array([True, True, True, False])),
}
DRAWN = [*LEAVES.values(), *SIZED.values(), And, Or]


def picture_in(kind: type[Rule]) -> str:
    lines = [line.strip() for line in (inspect.getdoc(kind) or "").splitlines()]
    return "\n".join(line for line in lines if re.fullmatch("[#.]{4}", line))


def rule_meant(kind: type[Rule]) -> Rule:
    """The instance a docstring draws: by its backticks, its 'here n=2', or its only form."""
    text = inspect.getdoc(kind) or ""
    if kind in (And, Or):
        found = re.search("`(.*?)`", text)
        assert found
        return parse(found[1])
    if kind in SIZED.values():
        found = re.search(r"here n=(\d+)", text)
        assert found
        return kind(int(found[1]))
    return kind()


@pytest.mark.parametrize("kind", DRAWN)
def test_the_drawing_in_the_docstring_is_the_dense_mask(kind: type[Rule]) -> None:
    rule = rule_meant(kind)
    assert isinstance(rule, kind)
    picture = picture_in(kind)
    assert picture.count("\n") == 3, f"{kind.__name__} draws no 4 × 4 picture"
    assert drawing(dense(rule, LAYOUTS.get(str(rule), Layout(4)))) == picture


def test_every_rule_that_can_be_drawn_is_drawn() -> None:
    kinds = {kind for _, kind in inspect.getmembers(rules, inspect.isclass) if issubclass(kind, Rule)}
    assert kinds - set(DRAWN) - set(SEVERAL.values()) == {Rule, rules._Several}
