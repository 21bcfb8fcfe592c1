"""The design as TOML: what is read back is what was written."""

import tomllib
from typing import Any

import pytest
from trained_study import design_table

from paribus.design.design_files import designs_folder, shipped_designs
from paribus.report.toml_text import WIDTH, design_toml, to_toml
from paribus.spec.design_reading import load_design


@pytest.mark.parametrize("name", shipped_designs())
def test_a_design_written_as_toml_is_the_same_design(name: str) -> None:
    design = load_design(designs_folder() / f"{name}.toml", "smoke")
    text = design_toml(design.model_dump(mode="json"))
    assert load_design(tomllib.loads(text)) == design


@pytest.mark.parametrize(
    "table",
    [
        {},
        {
            "a": 1,
            "b": {"c": [1, 2.5, True], "d e": {"f": 'quo"te \\ ü \n \x7f </script>'}},
            "g": {},
        },
        {
            "long": {"a": "x" * WIDTH, "b": {"c": "y" * WIDTH, "d": 1}},
            "after": 2,
            "tables": [{"a": 1}, {"b": [[]]}],
        },
        design_table(),
    ],
)
def test_what_is_read_back_is_what_was_written(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table


def test_nothing_is_said_of_what_is_not_there() -> None:
    assert to_toml({"a": None, "b": {"c": None, "d": 1}}) == "b = { d = 1 }\n"


def test_no_limit_of_the_gradient_is_said() -> None:
    assert (
        to_toml({"optimizer": {"clip": None, "rate": 0.5}})
        == "optimizer = { clip = false, rate = 0.5 }\n"
    )
