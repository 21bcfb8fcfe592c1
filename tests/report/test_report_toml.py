"""The design as TOML: what is read back is what was written."""

import tomllib
from typing import Any

import pytest

from little_study import little
from paribus.design.shipped import folder, shipped
from paribus.report.toml import WIDTH, designed, written
from paribus.spec.sound import load_design


@pytest.mark.parametrize("name", shipped())
def test_a_design_written_as_toml_is_the_same_design(name: str) -> None:
    design = load_design(folder() / f"{name}.toml", "smoke")
    text = designed(design.model_dump(mode="json"))
    assert load_design(tomllib.loads(text)) == design


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"a": 1, "b": {"c": [1, 2.5, True], "d e": {"f": "quo\"te \\ ü \n \x7f </script>"}}, "g": {}},
        {"long": {"a": "x" * WIDTH, "b": {"c": "y" * WIDTH, "d": 1}}, "after": 2, "tables": [{"a": 1}, {"b": [[]]}]},
        little(),
    ],
)  # fmt: skip
def test_what_is_read_back_is_what_was_written(table: dict[str, Any]) -> None:
    assert tomllib.loads(written(table)) == table


def test_nothing_is_said_of_what_is_not_there() -> None:
    assert written({"a": None, "b": {"c": None, "d": 1}}) == "b = { d = 1 }\n"


def test_no_limit_of_the_gradient_is_said() -> None:
    assert written({"optimizer": {"clip": None, "rate": 0.5}}) == "optimizer = { clip = false, rate = 0.5 }\n"
