"""Pictures are true: every drawing in a rule's docstring equals its dense mask."""

import inspect
import re

import numpy as np
import pytest

from paribus.masks import SequenceLayout, dense_mask, mask_text, parse_rule, rules
from paribus.masks.rules import COMPOSITE_RULES, LEAF_RULES, SIZED_RULES, And, Or, Rule

LAYOUTS = {
    "prefix": SequenceLayout(4, prefix=2),
    "same_side": SequenceLayout(4, prefix=2),
    "same_document": SequenceLayout(4, documents=np.array([0, 0, 1, 1])),
    "documents_so_far": SequenceLayout(4, documents=np.array([0, 0, 1, 1])),
    "padding": SequenceLayout(4, real=np.array([True, True, True, False])),
}
DRAWN = [*LEAF_RULES.values(), *SIZED_RULES.values(), And, Or]


def picture_in(kind: type[Rule]) -> str:
    lines = [line.strip() for line in (inspect.getdoc(kind) or "").splitlines()]
    return "\n".join(line for line in lines if re.fullmatch("[#.]{4}", line))


def rule_meant(kind: type[Rule]) -> Rule:
    """The instance a docstring draws: by its backticks, its 'here n=2', or its only form."""
    text = inspect.getdoc(kind) or ""
    if kind in (And, Or):
        found = re.search("`(.*?)`", text)
        assert found
        return parse_rule(found[1])
    if kind in SIZED_RULES.values():
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
    assert mask_text(dense_mask(rule, LAYOUTS.get(str(rule), SequenceLayout(4)))) == picture


def test_every_rule_that_can_be_drawn_is_drawn() -> None:
    kinds = {
        kind for _, kind in inspect.getmembers(rules, inspect.isclass) if issubclass(kind, Rule)
    }
    assert kinds - set(DRAWN) - set(COMPOSITE_RULES.values()) == {Rule, rules.CompositeRule}
