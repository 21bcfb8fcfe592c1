"""Whatever is written in a field of a spec, what is said about it is in our words."""

import datetime
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from trained_study import design_table

from paribus.errors import SpecError
from paribus.spec import load
from paribus.spec.architecture import Architecture
from paribus.spec.design import Design
from paribus.spec.design_reading import load_design
from paribus.spec.reading import merged_table
from paribus.spec.run import Stage, load_run
from paribus.spec.tree import kind_of, models_in
from paribus.spec.yardstick import load_yardstick

WRONG: list[Any] = [
    "text",
    "",
    3,
    -1,
    0,
    3.5,
    True,
    None,
    [],
    [1],
    ["a"],
    [[1]],
    [None],
    {},
    {"x": 1},
    {"kind": "x"},
    {"kind": 3},
    float("nan"),
    10**30,
    datetime.date(2020, 1, 1),
]
THEIRS = re.compile(
    r"a valid |instance of|Input should|should (be|have)|dictionary|extract fields|pydantic|boolean"
)
RUN = {
    "architecture": {"preset": "gpt2", "n_layers": 1, "d_model": 8, "attention": {"n_heads": 2}},
    "training": {"n_steps": 3},
}
Step = tuple[str, str | None]  # a key, and the kind of the table that stands there


def places(
    model: type[BaseModel], under: tuple[Step, ...] = (), seen: set[type] | None = None
) -> Iterator[Any]:
    """Every field of a model and of the models inside it: the steps to its table, and its name. A
    model that stands at several places is looked into at the first.
    """
    seen = set() if seen is None else seen
    for name, field in model.model_fields.items():
        yield under, name
        for inner in models_in(field.annotation):
            if inner not in seen:
                seen.add(inner)
                yield from places(inner, (*under, (name, kind_of(inner))), seen)


def with_wrong(
    table: dict[str, Any], steps: tuple[Step, ...], name: str, value: Any
) -> dict[str, Any]:
    here = table = dict(table)  # and so is every table on the way
    for key, kind in steps:
        inner = here.get(key)
        inner = dict(inner) if isinstance(inner, dict) else {}
        if kind is not None and inner.get("kind") != kind:
            inner = {"kind": kind}
        here[key] = inner
        here = inner
    here[name] = value
    return table


@pytest.mark.parametrize(
    ("read", "table", "model"),
    [
        (load, merged_table("gpt2"), Architecture),
        (load_run, RUN, Stage),
        (load_design, design_table(), Design),
    ],
    ids=["architecture", "run", "design"],
)
def test_no_wrong_value_of_any_field_is_told_in_the_words_of_a_library(
    read: Callable[[Any], Any], table: dict[str, Any], model: type[BaseModel]
) -> None:
    n_refused = 0
    for steps, name in places(model):
        for value in WRONG:
            try:
                read(with_wrong(table, steps, name, value))
            except SpecError as fault:
                n_refused += 1
                for problem in fault.problems:
                    said = problem.replace(repr(value), "")
                    assert not THEIRS.search(said), problem
                    assert "a value of another kind" not in said, problem
    assert n_refused > 100


def test_a_yardstick_is_refused_in_our_words() -> None:
    with pytest.raises(
        SpecError, match=r"^yardstick\.n_items is 'all' \(str\); use a whole number$"
    ):
        load_yardstick("halves", {"n_items": "all"})
