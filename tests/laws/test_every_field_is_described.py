"""Every field that a person may write is described beside it, and docs/reference.md says the
same.
"""

import inspect
import pkgutil
from importlib import import_module
from pathlib import Path

import pytest

import paribus.spec
from paribus.spec import Spec
from paribus.spec.fields import all_paths, all_tables, find_fields
from paribus.spec.reference import COMMAND, reference_page
from paribus.spec.tree import models_in, own_docstring

ROOT = Path(__file__).parents[2]
NOT_WRITTEN = {  # specs that no table of a file is: what is made of them, and bases of others
    *("Block", "HeldOutYardstick", "HalvesYardstick", "ResolvedArchitecture", "RunSpec", "Spec"),
    *("Begin", "Language", "Stack", "Stage", "TextSpec", "_ObjectiveTable", "_YardstickTable"),
    *("EpisodeLanguage", "TaskData", "_TaskTable", "TextProbe", "_ProbeTable"),
}


def specs() -> dict[str, type[Spec]]:
    """Every spec of the package by its name."""
    modules = [
        import_module(f"paribus.spec.{found.name}")
        for found in pkgutil.iter_modules(paribus.spec.__path__)
    ]
    members = [
        member for module in modules for _, member in inspect.getmembers(module, inspect.isclass)
    ]
    return {member.__name__: member for member in members if issubclass(member, Spec)}


@pytest.mark.parametrize(
    "table", all_tables(), ids=lambda table: f"{table.path} {table.kind or ''}"
)
def test_every_table_and_every_field_is_described(table):
    assert table.about.endswith("."), f"the class of {table.path} needs a docstring"
    for field in table.fields:
        assert field.about.endswith("."), (
            f"write a sentence below {table.path}.{field.key} in its spec"
        )


def test_every_spec_that_a_person_writes_is_in_the_reference():
    written = {name for name, model in specs().items() if name not in NOT_WRITTEN}
    abouts = {table.about for table in all_tables()}
    assert {name for name in written if own_docstring(specs()[name]) not in abouts} == set()


def test_every_path_of_the_reference_can_be_asked_for():
    for path in all_paths():
        found = find_fields(path)
        assert found.fields or found.tables, path


def test_the_reference_is_what_the_specs_say():
    assert (ROOT / "docs/reference.md").read_text("utf-8") == reference_page(), f"run `{COMMAND}`"
    assert "\nreference:" in (ROOT / "Makefile").read_text()


def test_models_in_a_type_are_found_in_their_order():
    assert models_in(dict[str, paribus.spec.Head | None]) == (paribus.spec.Head,)
