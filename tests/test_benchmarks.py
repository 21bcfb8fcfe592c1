"""Every benchmark still runs with the library as it is: as far as its own help."""

import ast
import importlib
import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if "__main__" in path.read_text())


def test_all_files_but_those_that_are_imported_are_programs() -> None:
    assert {path.name for path in FOLDER.glob("*.py")} - {path.name for path in PROGRAMS} == {
        "minimal_gpt.py"
    }


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_a_benchmark_says_how_it_is_asked(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    monkeypatch.syspath_prepend(FOLDER)  # as Python does for a program
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    assert ended.value.code == 0
    assert "usage: " in capsys.readouterr().out


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_what_a_benchmark_takes_from_the_tests_is_there(path: Path) -> None:
    """Modules that are imported by name when a table is asked for, and what is taken from them."""
    tree = ast.parse(path.read_text("utf-8"))
    for function in [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]:
        modules: dict[str, str] = {}
        for node in ast.walk(function):
            if isinstance(node, ast.Assign):
                modules |= imported_by_name(node)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                name = modules.get(node.value.id)
                assert name is None or node.attr in names_of(name), f"{name} has no {node.attr}"


def imported_by_name(assignment: ast.Assign) -> dict[str, str]:
    """`a, b = import_module("x"), import_module("y")` by variable."""
    target, value = assignment.targets[0], assignment.value
    variables = target.elts if isinstance(target, ast.Tuple) else [target]
    values = value.elts if isinstance(value, ast.Tuple) else [value]
    found = {}
    for variable, call in zip(variables, values, strict=False):
        if not isinstance(call, ast.Call) or ast.unparse(call.func) != "import_module":
            continue
        if isinstance(variable, ast.Name):
            found[variable.id] = ast.literal_eval(call.args[0])
    return found


def names_of(module: str) -> set[str]:
    """What a module of the tests, or of paribus, defines or imports."""
    if module.startswith("paribus."):
        return set(vars(importlib.import_module(module)))
    (path,) = FOLDER.parent.glob(f"tests/**/{module}.py")
    names: set[str] = set()
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names.update(
                one.id
                for target in targets
                for one in ast.walk(target)
                if isinstance(one, ast.Name)
            )
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
    return names
